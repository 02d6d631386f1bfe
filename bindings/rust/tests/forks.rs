//! Forked children.

use std::os::raw::{c_int, c_uint};
use std::panic::{self, AssertUnwindSafe};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use engine_race::Code;

mod common;
use common::{fill, small, value_of, values_of, Scratch};

// Of the C library.
extern "C" {
    fn fork() -> c_int;
    fn waitpid(child: c_int, status: *mut c_int, options: c_int) -> c_int;
    fn alarm(seconds: c_uint) -> c_uint;
    fn _exit(code: c_int) -> !;
}

/// Another test may hold a lock of the engine or of the C library at a fork, for ever in the child.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
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
    let _alone = alone();
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
        let mut value = value_of(1, 1);
        refused(store.read(1));
        refused(store.read_into(1, &mut value));
        refused(store.write(1, &value));
        refused(store.delete(1));
        refused(store.read_many(&[1]));
        refused(store.write_many(&[1], &values_of(&[1])).map_err(|many| many.error));
        refused(store.write_batch(&engine_race::Batch::new(4096)));
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
        refused(cursor.value().map(|value| value.map(<[u8]>::to_vec)));
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
    let _alone = alone();
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
    let _alone = alone();
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
    let _alone = alone();
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
fn options_of_a_parent_serve_a_child() {
    let _alone = alone();
    let scratch = Scratch::new();
    let options = small();
    assert_eq!(in_fork(|| options.open(scratch.join("store")).unwrap().close().unwrap()), 0);
    options.open(scratch.join("store")).unwrap().close().unwrap();
}
