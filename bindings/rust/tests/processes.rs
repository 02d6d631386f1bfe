//! Forked children, processes that are killed, and other openers.

use std::env;
use std::io::{BufRead, BufReader, Write};
use std::os::raw::{c_int, c_uint};
use std::panic::{self, AssertUnwindSafe};
use std::process::{Command, Stdio};
use std::sync::Arc;

use engine_race::{Code, Options, Store};

mod common;
use common::{fill, small, value_of, values_of, Scratch};

// Of the C library.
extern "C" {
    fn fork() -> c_int;
    fn waitpid(child: c_int, status: *mut c_int, options: c_int) -> c_int;
    fn alarm(seconds: c_uint) -> c_uint;
    fn _exit(code: c_int) -> !;
}

/// Runs `body` in the child of a fork; its status, 0 if it has not panicked.
fn in_fork(body: impl FnOnce()) -> c_int {
    // SAFETY: the child uses what a fork leaves it, and ends without returning.
    unsafe {
        let child = fork();
        assert!(child >= 0);
        if child == 0 {
            // Ends a child that hangs.
            alarm(60);
            let ended = panic::catch_unwind(AssertUnwindSafe(body));
            _exit(if ended.is_ok() { 0 } else { 1 });
        }
        let mut status = -1;
        assert_eq!(waitpid(child, &mut status, 0), child);
        status
    }
}

fn refused<T>(answer: engine_race::Result<T>) {
    let error = answer.err().expect("a child may not use the store");
    assert_eq!(error.code(), Code::InvalidArgument);
    assert!(error.message().contains("fork"));
}

#[test]
fn a_forked_child_may_use_nothing() {
    let scratch = Scratch::new();
    let kept = Arc::new(());
    let own = Arc::clone(&kept);
    let mut options = small();
    options.log(move |_, _| drop(Arc::clone(&own)));
    let store = options.open(scratch.join("store")).unwrap();
    drop(options);
    fill(&store, 0..10);
    let snapshot = store.snapshot().unwrap();
    let mut iter = store.iter(..).unwrap();
    iter.next().unwrap().unwrap();
    let mut cursor = store.cursor(..).unwrap();
    cursor.seek_to_first().unwrap();
    let mut keys = store.keys(..).unwrap();

    let status = in_fork(|| {
        let mut value = *value_of(1, 1);
        refused(store.read(1));
        refused(store.read_into(1, &mut value));
        refused(store.write(1, &value));
        refused(store.delete(1));
        refused(store.read_many(&[1]));
        refused(store.write_many(&[1], &values_of(&[1])).map_err(|many| many.error));
        refused(store.write_batch(&engine_race::Batch::new()));
        refused(store.read_async(1, |_| ()));
        refused(store.sync());
        refused(store.compact());
        refused(store.range(.., |_, _| std::ops::ControlFlow::Continue(())));
        refused(store.snapshot());
        refused(store.iter(..));
        refused(store.stats());
        refused(store.latencies());
        refused(store.property("stats"));
        refused(store.bucket_space());
        refused(store.checkpoint(scratch.join("checkpoint")));
        refused(store.backup(scratch.join("backup")));
        refused(snapshot.read(1));
        refused(snapshot.iter(..));
        refused(iter.next().unwrap());
        assert!(iter.next().is_none());
        refused(keys.next().unwrap());
        assert!(cursor.key().is_none());
        refused(cursor.next());
        refused(cursor.seek(1));
        refused(cursor.value().map(|value| value.copied()));
        refused(cursor.take(&mut [0], None));
        refused(cursor.refresh());
    });
    assert_eq!(status, 0);
    assert_eq!(store.read(1).unwrap(), Some(value_of(1, 0)));
    assert_eq!(snapshot.read(2).unwrap(), Some(value_of(2, 0)));
    assert_eq!(iter.next().unwrap().unwrap().0, 1);
    assert_eq!(cursor.key(), Some(0));
    assert_eq!(keys.count(), 10);
}

#[test]
fn a_forked_child_frees_and_closes_nothing() {
    let scratch = Scratch::new();
    let kept = Arc::new(());
    let own = Arc::clone(&kept);
    let mut options = small();
    options.log(move |_, _| drop(Arc::clone(&own)));
    let mut held = Some(options.open(scratch.join("store")).unwrap());
    drop(options);
    fill(held.as_ref().unwrap(), [1]);
    for closes in [false, true] {
        let status = in_fork(|| {
            let store = held.take().unwrap();
            drop((store.snapshot(), store.iter(..)));
            if closes {
                refused(store.close());
            } else {
                drop(store);
            }
            assert_eq!(Arc::strong_count(&kept), 2, "the closure is the parent's");
        });
        assert_eq!(status, 0);
        let store = held.as_ref().unwrap();
        assert_eq!(store.read(1).unwrap(), Some(value_of(1, 0)));
    }
    held.take().unwrap().close().unwrap();
    assert_eq!(Arc::strong_count(&kept), 1);
}

#[test]
fn a_forked_child_drops_what_its_parent_reads_with() {
    let scratch = Scratch::new();
    let store = scratch.open();
    fill(&store, [1]);
    let mut held = Some((store.snapshot().unwrap(), store.iter(..).unwrap()));
    assert_eq!(in_fork(|| drop(held.take())), 0);
    let (snapshot, mut iter) = held.unwrap();
    assert_eq!(snapshot.read(1).unwrap(), Some(value_of(1, 0)));
    assert_eq!(iter.next().unwrap().unwrap().0, 1);
}

#[test]
fn a_child_opens_what_its_parent_has_closed() {
    let scratch = Scratch::new();
    let store = scratch.open();
    fill(&store, [1]);
    store.close().unwrap();
    let status = in_fork(|| {
        let mine = scratch.open();
        assert_eq!(mine.read(1).unwrap(), Some(value_of(1, 0)));
        fill(&mine, [2]);
        mine.close().unwrap();
    });
    assert_eq!(status, 0);
    assert_eq!(scratch.open().read(2).unwrap(), Some(value_of(2, 0)));
}

#[test]
fn any_number_of_readers() {
    let scratch = Scratch::new();
    let store = scratch.open();
    fill(&store, [1]);
    store.close().unwrap();
    let mut options = small();
    options.read_only(true);
    let readers: Vec<Store> =
        (0..3).map(|_| options.open(scratch.join("store")).unwrap()).collect();
    for reader in &readers {
        assert_eq!(reader.read(1).unwrap(), Some(value_of(1, 0)));
    }
    assert_eq!(small().open(scratch.join("store")).unwrap_err().code(), Code::IoError);
}

const STORE_OF_CHILD: &str = "ENGINE_RACE_TEST_STORE_OF_CHILD";

/// Writes until it is killed, and tells of each record once it is acknowledged.
#[test]
fn writer_that_is_killed() {
    let directory = match env::var_os(STORE_OF_CHILD) {
        Some(directory) => directory,
        None => return,
    };
    let store = small().open(directory).unwrap();
    let mut told = std::io::stdout();
    for version in 0.. {
        let key = version % 100;
        store.write(key, &value_of(key, version)).unwrap();
        // Fails when the parent has gone.
        writeln!(told, "\nwrote {}", version).unwrap();
    }
}

#[test]
fn what_was_acknowledged_outlives_a_kill() {
    let scratch = Scratch::new();
    for round in 0..3u64 {
        let mut child = Command::new(env::current_exe().unwrap())
            .args(["--exact", "writer_that_is_killed", "--nocapture", "--test-threads=1"])
            .env(STORE_OF_CHILD, scratch.join("store"))
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut told = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut last = None;
        let mut note = |line: String| {
            if let Some(version) = line.strip_prefix("wrote ") {
                // A number that the kill has cut off is smaller.
                last = last.max(version.parse::<u64>().ok());
            }
            last
        };
        while note(told.next().unwrap().unwrap()) < Some(1000 + round * 777) {}
        child.kill().unwrap();
        told.for_each(|line| drop(note(line.unwrap())));
        child.wait().unwrap();
        let last = last.unwrap();
        let store = small().open(scratch.join("store")).unwrap();
        // The last write may be there without its line.
        for key in 0..100 {
            let value = store.read(key).unwrap().expect("it was acknowledged");
            let version = u64::from_be_bytes(value[8..16].try_into().unwrap());
            assert_eq!(value, value_of(key, version), "a mixed value");
            let newest = last - (last + 100 - key) % 100;
            assert!(version >= newest, "{}: {} of {}", key, version, newest);
            assert!(version <= last + 2, "{}: {} of {}", key, version, last);
        }
        store.close().unwrap();
    }
}

#[test]
fn options_of_a_parent_serve_a_child() {
    let scratch = Scratch::new();
    let options: Options = small();
    assert_eq!(in_fork(|| options.open(scratch.join("store")).unwrap().close().unwrap()), 0);
    options.open(scratch.join("store")).unwrap().close().unwrap();
}
