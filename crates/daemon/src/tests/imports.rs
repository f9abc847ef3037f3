//! Imports of several pools.

use std::time::Duration;

use protocol::api::Ask;
use secret::Secret;

use super::{command, create_pool, daemon};
use crate::failure::Result;
use crate::state::callers::channel::{Channel, without_connection};
use crate::state::callers::context::CallerContext;

/// A caller who goes away while several pools are imported ends the import before the next pool.
#[test]
fn an_import_of_several_pools_ends_with_its_caller() {
    /// A caller who waits for so many steps.
    struct Leaving(usize);
    impl Channel for Leaving {
        fn ask(&mut self, _: Ask) -> Result<Option<Secret>> {
            Ok(None)
        }
        fn notice(&mut self, _: String) {}
        fn pause(&mut self, _: Duration) -> bool {
            let stays = self.0 > 0;
            self.0 = self.0.saturating_sub(1);
            stays
        }

        without_connection!(rows data);
    }
    let dir = tempfile::tempdir().unwrap();
    let daemon = daemon(dir.path());
    for name in ["a", "b", "c"] {
        create_pool(&daemon, dir.path(), name);
        command(|context| daemon.export_pool(name, false, context)).unwrap();
    }
    let import = command::PoolImport {
        search: ["a", "b", "c"].map(|name| dir.path().join(name)).into(),
        no_mount: true,
        ..command::PoolImport::default()
    };
    let mut caller = Leaving(1);
    let ended = daemon.import_pools(
        &import,
        None,
        &mut CallerContext::internal("test", &mut caller),
    );
    let pools: Vec<String> = daemon.pools().iter().map(|it| it.pool.name()).collect();
    let [only] = &pools[..] else {
        panic!("{pools:?}");
    };
    let said = ended.unwrap_err().message.clone();
    assert_eq!(
        said,
        format!("the import was broken off; imported before: '{only}'")
    );
    // The next one goes on.
    command(|context| daemon.import_pools(&import, None, context)).unwrap();
    assert_eq!(daemon.pools().len(), 3);
}
