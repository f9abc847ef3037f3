//! An increment that becomes a clone, while others change what it goes on from.

use std::io::Read;

use crate::common::streams::*;
use crate::common::*;
use pool::{Pool, ReceiveInto};

/// Does something when half of a stream has come.
struct Meanwhile<'a> {
    rest: &'a [u8],
    half: usize,
    act: Option<Box<dyn FnOnce() + 'a>>,
}

impl Read for Meanwhile<'_> {
    fn read(&mut self, buf: &mut [u8]) -> std::io::Result<usize> {
        if self.rest.len() <= self.half
            && let Some(act) = self.act.take()
        {
            act();
        }
        let len = buf.len().min(500);
        self.rest.read(&mut buf[..len])
    }
}

fn receive_while(pool: &Pool, bytes: &[u8], act: impl FnOnce()) -> pool::Result<()> {
    let into = ReceiveInto {
        target: "tank/b",
        force: false,
        resumable: true,
        is_open: false,
    };
    let mut input = Meanwhile {
        rest: bytes,
        half: bytes.len() / 2,
        act: Some(Box::new(act)),
    };
    pool.receive(&mut input, &into, &AsItIs, &origin())
}

/// The snapshot of the other dataset is equal, and its records are others.
#[test]
fn another_dataset_that_takes_the_name_keeps_its_own_records() {
    let pool = with_history();
    receive(&pool, &stream(&pool, "tank/a@one", None), "tank/c").unwrap();
    let bytes = stream(&pool, "tank/a@two", Some("tank/a@one"));
    let received = receive_while(&pool, &bytes, || {
        pool.rename("tank/c", "tank/b", &origin()).unwrap();
    });
    refused(received, "took its name");
    assert_clean(&pool);
    pool.abandon_receive("tank/b", &origin()).unwrap();
    pool.destroy_dataset("tank/a", true, &origin()).unwrap();
    while pool.space().freeing > 0 {
        pool.commit().unwrap();
    }
    assert_clean(&pool);
    assert_eq!(holds(&pool, "tank/b"), holds(&pool, "tank/b@one"));
}

/// The caller may make a dataset, which says nothing of the dataset whose snapshot the stream goes on from.
#[test]
fn the_dataset_of_the_base_that_takes_the_name_is_not_extended() {
    let pool = with_history();
    receive(&pool, &stream(&pool, "tank/a@one", None), "tank/c").unwrap();
    let bytes = stream(&pool, "tank/a@two", Some("tank/a@one"));
    pool.destroy_dataset("tank/a", true, &origin()).unwrap();
    let received = receive_while(&pool, &bytes, || {
        pool.rename("tank/c", "tank/b", &origin()).unwrap();
    });
    refused(received, "took its name");
    assert!(pool.find("tank/b@two").is_err());
    assert_clean(&pool);
}

#[test]
fn the_dataset_above_is_the_same_to_the_end() {
    let pool = with_history();
    let above = |name: &str, guid| pool.create_dataset(name, new_dataset(guid), &origin());
    above("tank/p", 60).unwrap();
    above("tank/q", 61).unwrap();
    let bytes = stream(&pool, "tank/a@two", Some("tank/a@one"));
    let into = ReceiveInto {
        target: "tank/p/b",
        force: false,
        resumable: false,
        is_open: false,
    };
    let mut input = Meanwhile {
        rest: &bytes,
        half: bytes.len() / 2,
        act: Some(Box::new(|| {
            pool.rename("tank/p", "tank/old", &origin()).unwrap();
            pool.rename("tank/q", "tank/p", &origin()).unwrap();
        })),
    };
    let received = pool.receive(&mut input, &into, &AsItIs, &origin());
    refused(received, "took its name");
    assert!(pool.find("tank/p/b").is_err());
    assert_clean(&pool);
}

/// The origin of a receive may get another name and another owner meanwhile, and cannot go.
#[test]
fn what_it_goes_on_from_may_move() {
    let pool = with_history();
    let bytes = stream(&pool, "tank/a@two", Some("tank/a@one"));
    let two = holds(&pool, "tank/a@two");
    let moved = pool.clone_snapshot("tank/a@one", "tank/m", new_clone(70), &origin());
    moved.unwrap();
    receive_while(&pool, &bytes, || {
        pool.rename("tank/a", "tank/r", &origin()).unwrap();
        pool.promote("tank/m", None, &origin()).unwrap();
        let gone = pool.destroy_dataset("tank/m@one", false, &origin());
        assert!(gone.is_err());
    })
    .unwrap();
    assert_clean(&pool);
    let base = pool.find("tank/m@one").unwrap().id;
    assert_eq!(pool.find("tank/b").unwrap().origin, base);
    assert_eq!(holds(&pool, "tank/b@two"), two);
    assert_eq!(holds(&pool, "tank/b"), two);
}
