//! Stores with one defect each: the judge finds it, and names it.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use objects::Result;
use objects::store::{
    Creation, ListedObject, ObjectStore, Part, ProbeDepth, RequestFuture, StoreGuarantee, executor,
    probe,
};

#[derive(Clone, Copy, Debug, PartialEq)]
enum Defect {
    /// A right store.
    Absent,
    /// A look whether there is an object comes first, and its creation later.
    LooksFirst,
    /// The same, but only for objects that are large.
    LooksBeforeItReceives,
    IgnoresCondition,
    /// A request that is refused changes the object.
    RefusesTooLate,
    ForgetsRange,
    CutsLargeObjects,
    ListsBackwards,
    IgnoresStart,
    KeepsOldBytes,
    KeepsRemovedObjects,
    LosesNewObjects,
}

struct DefectiveStore {
    defect: Defect,
    objects: Arc<Mutex<BTreeMap<String, Bytes>>>,
}

impl DefectiveStore {
    fn has(&self, defect: Defect) -> bool {
        self.defect == defect
    }
}

impl ObjectStore for DefectiveStore {
    fn address(&self) -> String {
        format!("{:?}", self.defect)
    }

    fn create(&self, name: &str, bytes: Bytes) -> RequestFuture<'_, Result<Creation>> {
        let name = name.to_owned();
        Box::pin(async move {
            let exists = self.objects.lock().unwrap().contains_key(&name);
            let is_slow = self.has(Defect::LooksBeforeItReceives) && bytes.len() > 1 << 20;
            if is_slow || self.has(Defect::LooksFirst) {
                tokio::task::yield_now().await;
            }
            if exists && self.has(Defect::RefusesTooLate) {
                self.objects
                    .lock()
                    .unwrap()
                    .insert(name.clone(), bytes.clone());
            }
            if exists && !self.has(Defect::IgnoresCondition) {
                return Ok(Creation::Exists);
            }
            let size = match self.has(Defect::CutsLargeObjects) {
                true => bytes.len().min(1 << 20),
                false => bytes.len(),
            };
            if !self.has(Defect::LosesNewObjects) {
                self.objects
                    .lock()
                    .unwrap()
                    .insert(name, bytes.slice(..size));
            }
            Ok(Creation::Made)
        })
    }

    fn replace(&self, name: &str, bytes: Bytes) -> RequestFuture<'_, Result<()>> {
        let name = name.to_owned();
        Box::pin(async move {
            let mut objects = self.objects.lock().unwrap();
            if !self.has(Defect::KeepsOldBytes) || !objects.contains_key(&name) {
                objects.insert(name, bytes);
            }
            Ok(())
        })
    }

    fn get(&self, name: &str, range: Range<u64>) -> RequestFuture<'_, Result<Option<Part>>> {
        let name = name.to_owned();
        Box::pin(async move {
            let objects = self.objects.lock().unwrap();
            Ok(objects.get(&name).map(|bytes| {
                let at = |place: u64| (place as usize).min(bytes.len());
                let bytes_asked = match self.has(Defect::ForgetsRange) {
                    true => bytes.clone(),
                    false => bytes.slice(at(range.start)..at(range.end)),
                };
                Part {
                    bytes: bytes_asked,
                    size: bytes.len() as u64,
                }
            }))
        })
    }

    fn list(
        &self,
        prefix: &str,
        after: Option<&str>,
        limit: usize,
    ) -> RequestFuture<'_, Result<Vec<ListedObject>>> {
        let (prefix, after) = (prefix.to_owned(), after.map(str::to_owned));
        Box::pin(async move {
            let objects = self.objects.lock().unwrap();
            let mut listed: Vec<_> = objects
                .iter()
                .filter(|(name, _)| name.starts_with(&prefix))
                .filter(|(name, _)| {
                    self.has(Defect::IgnoresStart)
                        || after.as_ref().is_none_or(|after| *name > after)
                })
                .map(|(name, bytes)| ListedObject {
                    name: name.clone(),
                    size: bytes.len() as u64,
                })
                .collect();
            if self.has(Defect::ListsBackwards) {
                listed.reverse();
            }
            listed.truncate(limit);
            Ok(listed)
        })
    }

    fn delete(&self, name: &str) -> RequestFuture<'_, Result<()>> {
        let name = name.to_owned();
        Box::pin(async move {
            if !self.has(Defect::KeepsRemovedObjects) {
                self.objects.lock().unwrap().remove(&name);
            }
            Ok(())
        })
    }
}

#[test]
fn each_defect_is_found() {
    #[rustfmt::skip]
    let rows = [
        (Defect::Absent, vec![]),
        (Defect::LooksFirst, vec![StoreGuarantee::OneWinner]),
        (Defect::LooksBeforeItReceives, vec![StoreGuarantee::OneWinner]),
        (Defect::IgnoresCondition, vec![StoreGuarantee::CreateOnce, StoreGuarantee::OneWinner]),
        (Defect::RefusesTooLate, vec![StoreGuarantee::CreateOnce, StoreGuarantee::OneWinner]),
        (Defect::ForgetsRange, vec![StoreGuarantee::RangedRead]),
        (Defect::CutsLargeObjects, vec![StoreGuarantee::LargeObjects, StoreGuarantee::OneWinner]),
        (Defect::ListsBackwards, vec![StoreGuarantee::OrderedList]),
        (Defect::IgnoresStart, vec![StoreGuarantee::OrderedList]),
        (Defect::KeepsOldBytes, vec![StoreGuarantee::ReplaceAtOnce]),
        (Defect::KeepsRemovedObjects, vec![StoreGuarantee::DeleteAtOnce]),
        (Defect::LosesNewObjects, vec![StoreGuarantee::ReadAfterWrite]),
    ];
    for (defect, broken) in rows {
        let store: Arc<dyn ObjectStore> = Arc::new(DefectiveStore {
            defect,
            objects: Arc::default(),
        });
        let report = probe(&store, &executor(), ProbeDepth::Brief).unwrap();
        let found: Vec<_> = report.broken().map(|(guarantee, _)| guarantee).collect();
        assert_eq!(found, broken, "{defect:?}: {report:?}");
        assert_eq!(report.is_safe(), broken.is_empty());
    }
}
