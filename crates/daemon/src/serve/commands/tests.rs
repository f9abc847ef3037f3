use serde_json::json;

use super::*;
use crate::serve::dispatch::history_line;

fn said(command: serde_json::Value) -> String {
    history_line(&*served(serde_json::from_value(command).unwrap()))
}

#[test]
fn no_secret_is_told() {
    let change = json!({"key-change": {"name": "tank/a", "keysource": "hunter2", "slot": null,
                                       "only": false, "inherit": false}});
    assert_eq!(
        said(change),
        "strongroom key change -o keysource=... tank/a"
    );
    let restore =
        json!({"key-restore": {"name": "tank/a", "backup": "00112233", "keysource": null}});
    assert_eq!(said(restore), "strongroom key restore tank/a ...");
    let load = json!({"key-load": {"names": ["a"], "recursive": false, "location": "hunter2",
                                   "keysource": null, "dry_run": false}});
    assert_eq!(said(load), "strongroom key load -L ... a");
}
