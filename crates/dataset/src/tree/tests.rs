use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use parking_lot::Mutex;

use super::*;
use crate::error::Result;
use crate::layout::ROOT_SLOT;

/// Pages as an array would keep them.
#[derive(Default)]
struct Shelf {
    pages: Mutex<HashMap<u64, Arc<TreePage>>>,
    loads: Mutex<u64>,
}

impl PageSource for Shelf {
    fn load(&self, slot: u64) -> Result<TreePage> {
        *self.loads.lock() += 1;
        Ok(self.pages.lock()[&slot].as_ref().clone())
    }
}

impl Shelf {
    fn commit(&self, tree: &MetadataTree) {
        let frozen = tree.freeze();
        let mut pages = self.pages.lock();
        for slot in &frozen.freed {
            pages.remove(slot);
        }
        let slots: Vec<u64> = frozen.pages.iter().map(|(slot, _)| *slot).collect();
        for (slot, page) in frozen.pages {
            pages.insert(
                slot,
                Arc::new(TreePage::from_bytes(page.bytes()).expect("a sound page")),
            );
        }
        drop(pages);
        tree.thaw(&slots);
    }

    fn write(&self, tree: &MetadataTree, operation: impl Fn(&mut TreeWriter<'_>)) {
        loop {
            let mut operation = |w: &mut TreeWriter<'_>| {
                operation(w);
                Ok(())
            };
            match tree
                .try_write(1, false, &mut operation, &|_, _| {})
                .unwrap()
            {
                TreeAttempt::Done { .. } => return,
                TreeAttempt::Miss { slot, evictions } => tree.fetch(self, slot, evictions).unwrap(),
            }
        }
    }
}

fn dice(state: &mut u64, bound: u64) -> u64 {
    *state = state
        .wrapping_mul(6364136223846793005)
        .wrapping_add(1442695040888963407);
    (*state >> 33) % bound
}

fn key(n: u64) -> Vec<u8> {
    // Keys of different lengths, some of which begin alike.
    let mut key = (n % 997).to_be_bytes().to_vec();
    key.extend(std::iter::repeat_n(b'k', (n % 40) as usize));
    key
}

/// Returns all entries, read in small pieces: a scan needs its pages in memory all at once.
fn all(tree: &MetadataTree, shelf: &Shelf) -> BTreeMap<Vec<u8>, Vec<u8>> {
    let mut all = BTreeMap::new();
    let mut from = Vec::new();
    loop {
        let some = tree
            .read(shelf, |r| {
                let mut some = Vec::new();
                r.scan(&from, &mut |k, v| {
                    some.push((k.to_vec(), v.to_vec()));
                    some.len() < 4
                })?;
                Ok(some)
            })
            .unwrap();
        let Some((last, _)) = some.last() else {
            return all;
        };
        from = [last, &[0][..]].concat();
        all.extend(some);
    }
}

#[test]
fn random_changes_against_a_map() {
    for seed in 0..6u64 {
        let mut state = seed + 1;
        let shelf = Shelf::default();
        // Few pages in memory, so that most operations miss.
        let tree = MetadataTree::create(Header::new([0; 32]), 6);
        let mut model: BTreeMap<Vec<u8>, Vec<u8>> = BTreeMap::new();
        let deleting = |step: u64| step / 2000 % 2 == 1;
        for step in 0..8000 {
            let n = dice(&mut state, 5000);
            if dice(&mut state, 10) < if deleting(step) { 8 } else { 2 } {
                shelf.write(&tree, |w| w.delete(key(n)));
                model.remove(&key(n));
            } else {
                let len = match dice(&mut state, 20) {
                    0 => 4000,
                    1..=4 => 300,
                    _ => dice(&mut state, 60),
                };
                let value = vec![n as u8; len as usize];
                shelf.write(&tree, |w| w.put(key(n), value.clone()));
                model.insert(key(n), value);
            }
            if dice(&mut state, 30) == 0 {
                shelf.commit(&tree);
            }
            let probe = key(dice(&mut state, 5000));
            let (found, floor) = tree
                .read(&shelf, |r| {
                    let found = r.get(&probe)?.map(<[u8]>::to_vec);
                    let floor = r.floor(&probe)?.map(|(k, v)| (k.to_vec(), v.to_vec()));
                    Ok((found, floor))
                })
                .unwrap();
            assert_eq!(found.as_ref(), model.get(&probe));
            let expected = model
                .range(..=probe)
                .next_back()
                .map(|(k, v)| (k.clone(), v.clone()));
            assert_eq!(floor, expected);
        }
        assert_eq!(all(&tree, &shelf), model, "seed {seed}");
        assert!(*shelf.loads.lock() > 1000, "the test is to miss often");

        for key in model.keys() {
            shelf.write(&tree, |w| w.delete(key.clone()));
        }
        shelf.commit(&tree);
        assert!(all(&tree, &shelf).is_empty());
        let left: Vec<u64> = shelf.pages.lock().keys().copied().collect();
        assert!(left.len() < 6, "empty pages are freed: {left:?}");
    }
}

#[test]
fn a_refused_operation_changes_nothing() {
    let shelf = Shelf::default();
    let tree = MetadataTree::create(Header::new([0; 32]), 100);
    let before = tree.header();
    let refused = tree.try_write(
        1,
        false,
        &mut |w| -> TreeStep<()> {
            w.header.next_ino += 1;
            w.put(b"a".to_vec(), b"b".to_vec());
            assert_eq!(w.get(b"a")?, Some(&b"b"[..]));
            Err(vfs::Error::Exists.into())
        },
        &|_, _| panic!("nothing changes"),
    );
    assert!(refused.is_err());
    assert_eq!(tree.header(), before);
    assert!(all(&tree, &shelf).is_empty());
}

#[test]
fn what_is_frozen_does_not_change() {
    let shelf = Shelf::default();
    let tree = MetadataTree::create(Header::new([0; 32]), 100);
    shelf.write(&tree, |w| w.put(b"a".to_vec(), b"1".to_vec()));
    let frozen = tree.freeze();
    shelf.write(&tree, |w| w.put(b"a".to_vec(), b"2".to_vec()));
    let (_, page) = &frozen.pages[0];
    assert_eq!(page.value(0), b"1");
    tree.thaw(&[ROOT_SLOT]);
    assert_eq!(tree.dirty_pages(), 1, "changed again since");
}

#[test]
fn keys_in_order_fill_pages() {
    let shelf = Shelf::default();
    let tree = MetadataTree::create(Header::new([0; 32]), 10_000);
    for n in 0..20_000u64 {
        shelf.write(&tree, |w| w.put(n.to_be_bytes().to_vec(), vec![1; 30]));
    }
    shelf.commit(&tree);
    let pages = shelf.pages.lock().len();
    let least = 20_000 * 44 / PAGE;
    assert!(
        pages < least + least / 10 + 3,
        "{pages} pages for at least {least}"
    );
}

#[test]
fn an_operation_reads_its_own_changes() {
    for seed in 0..20u64 {
        let mut state = seed + 100;
        let shelf = Shelf::default();
        let tree = MetadataTree::create(Header::new([0; 32]), 100);
        let mut model: BTreeMap<Vec<u8>, Vec<u8>> = BTreeMap::new();
        for _ in 0..60 {
            let n = dice(&mut state, 80);
            shelf.write(&tree, |w| w.put(key(n), vec![0]));
            model.insert(key(n), vec![0]);
        }
        let attempt = tree.try_write(
            1,
            false,
            &mut |w| {
                for _ in 0..200 {
                    let n = dice(&mut state, 80);
                    if dice(&mut state, 2) == 0 {
                        w.put(key(n), vec![1, n as u8]);
                        model.insert(key(n), vec![1, n as u8]);
                    } else {
                        w.delete(key(n));
                        model.remove(&key(n));
                    }
                    let probe = key(dice(&mut state, 80));
                    assert_eq!(w.get(&probe)?, model.get(&probe).map(Vec::as_slice));
                    let floor = model.range(..=probe.clone()).next_back();
                    assert_eq!(w.floor(&probe)?, floor.map(|(k, v)| (&k[..], &v[..])));
                    let limit = dice(&mut state, 8) as usize;
                    let mut seen = Vec::new();
                    w.scan(&probe, &mut |k, v| {
                        seen.push((k.to_vec(), v.to_vec()));
                        seen.len() <= limit
                    })?;
                    let expected: Vec<_> = model
                        .range(probe..)
                        .take(limit + 1)
                        .map(|(k, v)| (k.clone(), v.clone()))
                        .collect();
                    assert_eq!(seen, expected);
                }
                Ok(())
            },
            &|_, _| {},
        );
        assert!(matches!(attempt, Ok(TreeAttempt::Done { .. })));
        assert_eq!(all(&tree, &shelf), model);
    }
}

/// A page with one child for each slot.
fn inner(children: &[u64]) -> Arc<TreePage> {
    let mut page = TreePage::new(PageKind::Inner);
    for (index, slot) in children.iter().enumerate() {
        let key = vec![b'k'; index];
        page.insert(index, &key, &slot.to_le_bytes());
    }
    Arc::new(page)
}

#[test]
fn pages_that_lead_in_circles_or_to_one_place_are_refused() {
    let mut leaf = TreePage::new(PageKind::Leaf);
    leaf.insert(0, b"x", b"value");
    let cases: [&[(u64, &[u64])]; 4] = [
        &[(ROOT_SLOT, &[ROOT_SLOT])],
        &[(ROOT_SLOT, &[2]), (2, &[3]), (3, &[2])],
        &[(ROOT_SLOT, &[2, 3]), (2, &[9]), (3, &[9])],
        &[(ROOT_SLOT, &[0])],
    ];
    for (n, pages) in cases.iter().enumerate() {
        let shelf = Shelf::default();
        shelf.pages.lock().insert(9, Arc::new(leaf.clone()));
        shelf.pages.lock().insert(0, Arc::new(leaf.clone()));
        for (slot, children) in *pages {
            shelf.pages.lock().insert(*slot, inner(children));
        }
        let tree = MetadataTree::open(Header::new([0; 32]), 100);
        let scan = tree.read(&shelf, |r| r.scan(b"", &mut |_, _| true));
        assert!(scan.is_err(), "case {n}");
        // Nor is anything written there, though nothing was read.
        let mut operation = |w: &mut TreeWriter<'_>| {
            w.put(b"kkkk".to_vec(), b"value".to_vec());
            w.put(Vec::new(), b"value".to_vec());
            Ok(())
        };
        let tree = MetadataTree::open(Header::new([0; 32]), 100);
        let written = loop {
            match tree.try_write(1, false, &mut operation, &|_, _| {}) {
                Ok(TreeAttempt::Miss { slot, evictions }) => {
                    tree.fetch(&shelf, slot, evictions).unwrap();
                }
                done => break done,
            }
        };
        assert!(written.is_err(), "case {n}");
    }
}

#[test]
fn a_new_page_in_the_place_of_another_makes_no_circle() {
    let long = |n: u64| [&n.to_be_bytes()[..], &[b'k'; 400]].concat();
    let shelf = Shelf::default();
    let tree = MetadataTree::create(Header::new([0; 32]), 10_000);
    // Little is missing until the root is full.
    for n in 0..1150 {
        shelf.write(&tree, |w| w.put(long(2 * n), vec![0; 100]));
    }
    shelf.commit(&tree);
    let mut refused = 0;
    for next_page in 2..tree.header().next_page {
        let header = Header {
            next_page,
            ..tree.header()
        };
        let hostile = MetadataTree::open(header, 10_000);
        let mut operation = |w: &mut TreeWriter<'_>| {
            (0..2300).for_each(|n| w.put(long(n), vec![1; 100]));
            Ok(())
        };
        loop {
            match hostile.try_write(1, false, &mut operation, &|_, _| {}) {
                Ok(TreeAttempt::Miss { slot, evictions }) => {
                    hostile.fetch(&shelf, slot, evictions).unwrap();
                }
                Ok(TreeAttempt::Done { .. }) => break,
                Err(_) => {
                    refused += 1;
                    break;
                }
            }
        }
    }
    assert!(refused > 0, "the root was never put below itself");
}

/// No clean page stays when the tree has no user, whatever the number of users before, and every lookup finds its
/// key.
#[test]
fn an_uncached_tree_keeps_pages_only_while_it_is_used() {
    let shelf = Shelf::default();
    let tree = MetadataTree::create(Header::new([0; 32]), 10_000);
    let key = |n: u32| n.to_be_bytes().to_vec();
    for n in 0..3000 {
        shelf.write(&tree, |w| w.put(key(n), vec![n as u8; 100]));
    }
    shelf.commit(&tree);
    assert!(tree.clean_pages() > 10);
    tree.set_uncached(true);
    assert_eq!(tree.clean_pages(), 0);
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let (shelf, tree) = (&shelf, &tree);
            scope.spawn(move || {
                for n in 0..500 {
                    let wanted = (n * 37 + thread * 11) % 3000;
                    let read = |r: &TreeReader<'_>| Ok(r.get(&key(wanted))?.map(<[u8]>::to_vec));
                    let value = tree.read(shelf, read).unwrap();
                    assert_eq!(value, Some(vec![wanted as u8; 100]));
                }
            });
        }
    });
    assert_eq!(tree.clean_pages(), 0);
    {
        let _use = tree.begin_use();
        shelf.write(&tree, |w| w.put(key(5), b"new".to_vec()));
        assert!(
            tree.clean_pages() > 0,
            "those on the way are there until it ends"
        );
    }
    assert_eq!(tree.clean_pages(), 0);
    assert_eq!(tree.dirty_pages(), 1);
    shelf.commit(&tree);
    assert_eq!(tree.clean_pages(), 0);
    tree.set_uncached(false);
    let read = |r: &TreeReader<'_>| Ok(r.get(&key(5))?.map(<[u8]>::to_vec));
    assert_eq!(tree.read(&shelf, read).unwrap(), Some(b"new".to_vec()));
    assert!(tree.clean_pages() > 0);
}

#[test]
fn an_operation_on_keys_of_one_leaf_descends_once() {
    let shelf = Shelf::default();
    let tree = MetadataTree::create(Header::new([0; 32]), 1000);
    let key = |n: u64| n.to_be_bytes().to_vec();
    shelf.write(&tree, |w| {
        (0..5000).for_each(|n| w.put(key(n), vec![7; 100]))
    });
    assert!(tree.header().next_page > 20, "several leaves");
    let count = |act: &dyn Fn()| {
        let before = super::reader::DESCENTS.get();
        act();
        super::reader::DESCENTS.get() - before
    };
    let written = count(&|| {
        shelf.write(&tree, |w| {
            assert_eq!(w.get(&key(2000)).ok().unwrap(), Some(&[7; 100][..]));
            assert!(w.floor(&[&key(2000)[..], b"more"].concat()).is_ok());
            w.put(key(2000), vec![8; 100]);
            w.put(key(2001), vec![8; 100]);
        });
    });
    let read = count(&|| {
        let read = tree.read(&shelf, |r| {
            let mut some = Vec::new();
            r.scan(&key(2000), &mut |_, value| {
                some.push(value[0]);
                some.len() < 3
            })?;
            Ok((r.get(&key(2001))?.map(<[u8]>::to_vec), some))
        });
        assert_eq!(read.unwrap(), (Some(vec![8; 100]), vec![8, 8, 7]));
    });
    assert_eq!((written, read), (1, 1));
}
