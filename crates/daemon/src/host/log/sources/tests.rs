use std::io;
use std::sync::Arc;

use tracing_subscriber::layer::SubscriberExt;

use super::*;

fn user(uid: u32) -> LineSource {
    LineSource::User(format!("uid {uid}"))
}

#[test]
fn each_source_has_a_limit_and_says_what_was_left_out() {
    let (mut buckets, start) = (LineBuckets::default(), Instant::now());
    let written = |buckets: &mut LineBuckets, source: &LineSource, at| {
        let tries = (0..1000).map(|_| buckets.take(source.clone(), at));
        tries.filter(|(may, _)| *may).count() as u32
    };
    assert_eq!(written(&mut buckets, &user(1), start), AT_ONCE);
    assert_eq!(written(&mut buckets, &user(2), start), AT_ONCE);
    assert_eq!(written(&mut buckets, &LineSource::Root, start), 1000);
    let (may, told) = buckets.take(user(1), start + PERIOD);
    assert!(may);
    assert_eq!(told, [(user(1), 900)]);
    assert_eq!(buckets.take(user(1), start + PERIOD), (false, Vec::new()));
    // A source that writes no more is told of with another line, and forgotten.
    let (_, mut told) = buckets.take(LineSource::Root, start + SWEEP);
    told.sort_by_key(|(_, lines)| *lines);
    assert_eq!(told, [(user(1), 1), (user(2), 900)]);
    assert!(buckets.all.is_empty());
}

#[test]
fn the_table_of_sources_is_bounded() {
    let (mut buckets, now) = (LineBuckets::default(), Instant::now());
    let tries = (0..100_000).map(|uid| buckets.take(user(uid), now));
    let written = tries.filter(|(may, _)| *may).count();
    assert_eq!(written, SOURCES_MAX + AT_ONCE as usize);
    assert_eq!(buckets.all.len(), SOURCES_MAX + 1);
}

#[test]
fn a_network_is_one_source() {
    for (text, source) in [
        ("192.0.2.1:3260", Some("192.0.2.1")),
        ("192.0.2.1", Some("192.0.2.1")),
        ("[::ffff:192.0.2.1]:9", Some("192.0.2.1")),
        ("[2001:db8::1:2:3]:9", Some("2001:db8::")),
        ("2001:db8::/64", Some("2001:db8::")),
        ("uid 7", None),
    ] {
        let source = source.map(|text| text.parse().unwrap());
        assert_eq!(address_in(text), source, "{text}");
    }
}

/// Through a subscriber as the daemon has it.
#[test]
fn lines_are_counted_by_address_by_user_and_by_place() {
    #[derive(Clone, Default)]
    struct Memory(Arc<Mutex<Vec<u8>>>);

    impl io::Write for Memory {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    let memory = Memory::default();
    let output = LogOutput::new(memory.clone());
    let format = tracing_subscriber::fmt().with_writer(output.clone());
    let subscriber = format.finish().with(SourceLimits::new(output));
    tracing::subscriber::with_default(subscriber, || {
        for n in 0..1000 {
            tracing::warn!(from = format!("192.0.2.1:{n}"), "refused one");
            tracing::info_span!("connection", from = %"192.0.2.2:7")
                .in_scope(|| tracing::warn!("refused two"));
            tracing::warn!("a place");
            let of_user = log_for(Some("uid 1001".into()));
            tracing::info!("a command of a user");
            drop(of_user);
            let _root = log_for(None);
            tracing::info!("a command of root");
        }
        // Still, others are heard.
        tracing::warn!(from = "192.0.2.3:7", "refused three");
    });
    let text = String::from_utf8(memory.0.lock().clone()).unwrap();
    let lines = |what| text.lines().filter(|line| line.contains(what)).count();
    // A slow machine gives some more in the meantime.
    for what in ["refused one", "refused two", "a place", "of a user"] {
        let lines = lines(what);
        assert!((AT_ONCE as usize..1000).contains(&lines), "{what}: {lines}");
    }
    assert_eq!(lines("a command of root"), 1000);
    assert_eq!(lines("refused three"), 1);
}
