//! Copies, and figures of open stores.

use std::fs;

use engine_race::{Code, Options};

mod common;
use common::{damage, fill, small, value_of, Scratch};

#[test]
fn checkpoints() {
    let scratch = Scratch::new();
    let store = scratch.open();
    fill(&store, 0..100);
    store.checkpoint(scratch.join("then")).unwrap();
    store.delete(1).unwrap();
    let error = store.checkpoint(scratch.join("then")).unwrap_err();
    assert_eq!(error.code(), Code::InvalidArgument);
    assert_eq!(store.checkpoint("a\0b").unwrap_err().code(), Code::InvalidArgument);
    let then = small().open(scratch.join("then")).unwrap();
    assert_eq!(then.keys(..).unwrap().count(), 100);
}

#[test]
fn backups() {
    let scratch = Scratch::new();
    let store = scratch.open();
    fill(&store, 0..100);
    let full = store.backup(scratch.join("full")).unwrap();
    assert_eq!((full.record_count, full.value_count, full.chain_length), (100, 100, 1));
    assert!(full.size_bytes > 100 * 4096);
    fill(&store, 100..110);
    let later = store.backup_since(scratch.join("later"), scratch.join("full")).unwrap();
    assert_eq!((later.record_count, later.value_count, later.chain_length), (110, 10, 2));
    let error = store.backup_since(scratch.join("x"), scratch.join("none")).unwrap_err();
    assert_eq!(error.code(), Code::InvalidArgument);
    let options = Options::new();
    let verified = engine_race::verify_backup(scratch.join("later"), &options).unwrap();
    assert_eq!(verified.record_count, 110);
    engine_race::restore(scratch.join("later"), scratch.join("restored"), &options).unwrap();
    let restored = small().open(scratch.join("restored")).unwrap();
    assert_eq!(restored.read(105).unwrap(), Some(value_of(105, 0)));
    assert_eq!(restored.keys(..).unwrap().count(), 110);
    damage(&scratch.join("full"), &value_of(5, 0));
    let error =
        engine_race::restore(scratch.join("later"), scratch.join("y"), &options).unwrap_err();
    assert_eq!(error.code(), Code::Corruption);
}

#[test]
fn closed_stores() {
    let scratch = Scratch::new();
    let store = scratch.open();
    fill(&store, 0..100);
    store.close().unwrap();
    let options = small();
    let report = engine_race::verify(scratch.join("store"), &options).unwrap();
    assert_eq!((report.record_count, report.bad_count, report.lost_tail_count), (100, 0, 0));
    let copied = engine_race::copy(scratch.join("store"), scratch.join("copy"), &options).unwrap();
    assert_eq!(copied.record_count, 100);
    assert_eq!(small().open(scratch.join("copy")).unwrap().keys(..).unwrap().count(), 100);
    fs::create_dir(scratch.join("empty")).unwrap();
    let error = engine_race::verify(scratch.join("empty"), &options).unwrap_err();
    assert_eq!(error.code(), Code::NotFound);
    assert_eq!(error.report().unwrap().record_count, 0);
}

#[test]
fn counters() {
    let scratch = Scratch::new();
    let store = scratch.open();
    fill(&store, 0..50);
    let stats = store.stats().unwrap();
    assert_eq!(stats.get("record_count"), Some(50));
    assert_eq!(stats.get("no such counter"), None);
    assert!(stats.iter().len() > 20);
    assert!(stats.iter().any(|(name, _)| name == "record_count"));
    let space = store.bucket_space().unwrap();
    assert_eq!(space.len(), 16);
    assert_eq!(space.iter().map(|bucket| bucket.live_bytes).sum::<u64>(), 50 * 4096);
}

/// More buckets than the first call has room for.
#[test]
fn space_of_many_buckets() {
    let scratch = Scratch::new();
    let mut options = small();
    options.bucket_count(4096);
    let store = options.open(scratch.join("store")).unwrap();
    store.write(u64::MAX, &value_of(1, 0)).unwrap();
    let space = store.bucket_space().unwrap();
    assert_eq!(space.len(), 4096);
    assert_eq!(space[4095].live_bytes, 4096);
    assert_eq!(space[0].live_bytes + space[0].dead_bytes, 0);
}

#[test]
fn latencies() {
    let scratch = Scratch::new();
    assert_eq!(scratch.open().latencies().unwrap(), None);
    let mut options = small();
    options.latency_stats(true);
    let store = options.open(scratch.join("store")).unwrap();
    fill(&store, 0..50);
    store.sync().unwrap();
    store.read(1).unwrap();
    let found = store.latencies().unwrap().unwrap();
    assert_eq!((found.write.count, found.read.count, found.sync.count), (50, 1, 1));
    assert!(found.write.max >= found.write.p50 && found.write.p50.as_nanos() > 0);
    assert_eq!(found.range.count, 0);
}

#[test]
fn properties() {
    let scratch = Scratch::new();
    let store = small().key_range(3..=9).open(scratch.join("store")).unwrap();
    assert_eq!(store.property("key_range").unwrap(), "3-9");
    assert!(store.property("prometheus").unwrap().contains("engine_race"));
    let error = store.property("key_rang").unwrap_err();
    assert_eq!(error.code(), Code::InvalidArgument);
    assert!(error.message().contains("key_range"), "{}", error);
}

/// A snapshot or a cursor that is not freed keeps the records that it shows.
#[test]
fn space_is_given_back_when_nobody_sees_it() {
    let scratch = Scratch::new();
    let mut options = small();
    options.reclaim(engine_race::Reclaim::Off);
    let store = options.open(scratch.join("store")).unwrap();
    let freed_bytes = || store.stats().unwrap().get("reclaim_freed_bytes").unwrap();
    fill(&store, 0..2000);
    for takes_snapshot in [false, true] {
        let before = freed_bytes();
        let snapshot = takes_snapshot.then(|| store.snapshot().unwrap());
        let cursor = (!takes_snapshot).then(|| store.cursor(..).unwrap());
        fill(&store, 0..2000);
        store.compact().unwrap();
        assert!(freed_bytes() - before < 1000 * 4096);
        drop((snapshot, cursor));
        store.compact().unwrap();
        assert!(freed_bytes() - before > 1000 * 4096, "{}", takes_snapshot);
    }
    assert_eq!(store.keys(..).unwrap().count(), 2000);
}
