//! Closures that the library calls: visitors, progress, the log, asynchronous reads.

use std::future::Future;
use std::ops::ControlFlow;
use std::panic::{self, AssertUnwindSafe};
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};

use engine_race::{with_progress, Code, LogLevel, ReadFuture, Store, Value};

mod common;
use common::{fill, small, value_of, values_of, Scratch};

const GO_ON: ControlFlow<()> = ControlFlow::Continue(());

/// The text of the panic that ends `call`.
fn panic_of(call: impl FnOnce()) -> String {
    let payload = panic::catch_unwind(AssertUnwindSafe(call)).unwrap_err();
    payload.downcast_ref::<&str>().unwrap().to_string()
}

#[test]
fn a_panic_of_a_visitor_comes_out_of_the_call() {
    let scratch = Scratch::new();
    let store = scratch.open();
    fill(&store, 0..10);
    let snapshot = store.snapshot().unwrap();
    let mut count = 0;
    let visit = |store: &Store, count: &mut u32| {
        let _ = store.range(.., |key, _| {
            *count += 1;
            if key == 2 {
                panic!("a visitor");
            }
            GO_ON
        });
    };
    assert_eq!(panic_of(|| visit(&store, &mut count)), "a visitor");
    assert_eq!(count, 3);
    let in_snapshot = || drop(snapshot.range(.., |_, _| panic!("at a snapshot")));
    assert_eq!(panic_of(in_snapshot), "at a snapshot");
    // A panic within a visit within a visit.
    let nested = || {
        let _ = store.range(.., |_, _| {
            visit(&store, &mut 0);
            GO_ON
        });
    };
    assert_eq!(panic_of(nested), "a visitor");
    assert_eq!(store.keys(..).unwrap().count(), 10);
    drop(snapshot);
    store.close().unwrap();
}

#[test]
fn progress_of_long_calls() {
    let scratch = Scratch::new();
    let store = scratch.open();
    let keys: Vec<u64> = (0..1000).collect();
    let mut told = Vec::new();
    let written = with_progress(
        |done, most| {
            told.push((done, most));
            GO_ON
        },
        || store.write_many(&keys, &values_of(&keys)),
    );
    written.unwrap();
    assert_eq!(told, [(256, 1000), (512, 1000), (768, 1000), (1000, 1000)]);
    // Nobody is told of later calls.
    store.delete_many(&[1]).unwrap();
    let mut count = 0;
    let counted = |_, _| {
        count += 1;
        GO_ON
    };
    with_progress(counted, || {
        store.compact().unwrap();
        store.checkpoint(scratch.join("checkpoint")).unwrap();
        store.read_many(&keys).unwrap();
    });
    assert!(count >= 3);
}

#[test]
fn progress_cancels() {
    let scratch = Scratch::new();
    let store = scratch.open();
    let keys: Vec<u64> = (0..1000).collect();
    let written =
        with_progress(|_, _| ControlFlow::Break(()), || store.write_many(&keys, &values_of(&keys)));
    let many = written.unwrap_err();
    assert_eq!((many.error.code(), many.done_count), (Code::Incomplete, 256));
    let read = with_progress(|_, _| ControlFlow::Break(()), || store.read_many(&keys));
    assert_eq!(read.unwrap_err().code(), Code::Incomplete);
    let compacted = with_progress(|_, _| ControlFlow::Break(()), || store.compact());
    assert_eq!(compacted.unwrap_err().code(), Code::Incomplete);
    store.compact().unwrap();
}

#[test]
fn a_panic_of_a_progress_function_comes_out_behind_the_call() {
    let scratch = Scratch::new();
    let store = scratch.open();
    let (mut calls, mut later) = (0, Vec::new());
    let panics = || {
        with_progress(
            |_, _| -> ControlFlow<()> {
                calls += 1;
                panic!("a progress function")
            },
            || {
                later.push(store.delete_many(&[1]).unwrap_err().error.code());
                // The function is not called again, and every long call is cancelled.
                later.push(store.delete_many(&[1]).unwrap_err().error.code());
            },
        )
    };
    assert_eq!(panic_of(panics), "a progress function");
    assert_eq!(calls, 1);
    assert_eq!(later, [Code::Incomplete, Code::Incomplete]);
    store.delete_many(&[1]).unwrap();
}

#[test]
fn progress_within_progress() {
    let scratch = Scratch::new();
    let store = scratch.open();
    let (outer, inner) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let delete = || store.delete_many(&[1]).unwrap();
    let count_inner = |_, _| {
        inner.fetch_add(1, Ordering::Relaxed);
        GO_ON
    };
    let count_outer = |_, _| {
        outer.fetch_add(1, Ordering::Relaxed);
        // A call of the function tells nobody, but for one of its own.
        delete();
        with_progress(count_inner, delete);
        delete();
        GO_ON
    };
    with_progress(count_outer, || {
        delete();
        with_progress(count_inner, delete);
        // A panic of a call restores the function of before, too.
        let failing = || with_progress(count_inner, || panic!("a call"));
        assert_eq!(panic_of(failing), "a call");
        delete();
    });
    delete();
    assert_eq!((outer.into_inner(), inner.into_inner()), (2, 3));
}

#[test]
fn the_log_goes_to_a_closure_until_the_store_is_closed() {
    let scratch = Scratch::new();
    let lines = Arc::new(Mutex::new(Vec::new()));
    let kept = Arc::clone(&lines);
    let mut options = small();
    options.log(move |level, message| kept.lock().unwrap().push((level, message.to_string())));
    let copy = options.clone();
    drop(options);
    let options = copy;
    let store = options.open(scratch.join("store")).unwrap();
    assert!(options.open(scratch.join("store")).is_err());
    drop(options);
    assert_eq!(Arc::strong_count(&lines), 2);
    let before = lines.lock().unwrap().len();
    assert!(store.checkpoint(scratch.join("store")).is_err());
    {
        let lines = lines.lock().unwrap();
        assert!(lines[..before]
            .iter()
            .any(|(level, text)| { *level == LogLevel::Error && text.contains("open elsewhere") }));
        assert!(lines.len() > before);
    }
    store.close().unwrap();
    assert_eq!(Arc::strong_count(&lines), 1);
}

#[test]
fn a_panic_of_the_log_ends_there() {
    let scratch = Scratch::new();
    let mut options = small();
    options.log(|_, _| panic!("the log"));
    let store = options.open(scratch.join("store")).unwrap();
    assert!(options.open(scratch.join("store")).is_err());
    fill(&store, [1]);
    assert_eq!(store.read(1).unwrap(), Some(value_of(1, 0)));
}

#[test]
fn asynchronous_reads() {
    let scratch = Scratch::new();
    let store = Arc::new(scratch.open());
    fill(&store, (0..500).map(|i| i * 2));
    let (sender, receiver) = mpsc::channel();
    for key in 0..1000u64 {
        let sender = sender.clone();
        store.read_async(key, move |read| sender.send((key, read.unwrap())).unwrap()).unwrap();
    }
    drop(sender);
    let mut count = 0;
    for (key, value) in receiver {
        assert_eq!(value, (key % 2 == 0).then(|| value_of(key, 0)), "{}", key);
        count += 1;
    }
    assert_eq!(count, 1000);
}

#[test]
fn an_asynchronous_read_may_start_another() {
    fn follow(store: &Arc<Store>, key: u64, sender: mpsc::Sender<u64>) {
        let next = Arc::clone(store);
        let went_on = store.read_async(key, move |read| {
            assert_eq!(read.unwrap(), Some(value_of(key, 0)));
            sender.send(key).unwrap();
            if key > 0 {
                follow(&next, key - 1, sender);
            }
        });
        went_on.unwrap();
    }
    let scratch = Scratch::new();
    let store = Arc::new(scratch.open());
    fill(&store, 0..20);
    let (sender, receiver) = mpsc::channel();
    follow(&store, 19, sender);
    assert_eq!(receiver.iter().collect::<Vec<_>>(), (0..20).rev().collect::<Vec<_>>());
}

/// The last owner of the store is the closure. Closing there would wait for the closure itself.
#[test]
fn a_store_that_is_dropped_in_its_own_read_is_closed() {
    let scratch = Scratch::new();
    for closes in [false, true] {
        let told = Arc::new(());
        let kept = Arc::clone(&told);
        let mut options = small();
        options.log(move |_, _| drop(Arc::clone(&kept)));
        let store = Arc::new(options.open(scratch.join("store")).unwrap());
        drop(options);
        fill(&store, [1]);
        let own = Arc::clone(&store);
        let (is_dropped, go_on) = mpsc::channel::<()>();
        let (sender, receiver) = mpsc::channel();
        store
            .read_async(1, move |read| {
                go_on.recv().unwrap();
                let own = Arc::try_unwrap(own).unwrap();
                if closes {
                    own.close().unwrap();
                } else {
                    drop(own);
                }
                sender.send(read.unwrap()).unwrap();
            })
            .unwrap();
        drop(store);
        is_dropped.send(()).unwrap();
        assert_eq!(receiver.recv().unwrap(), Some(value_of(1, 0)));
        // The log's closure is dropped behind the end of the store.
        while Arc::strong_count(&told) > 1 {
            thread::yield_now();
        }
        scratch.open().close().unwrap();
    }
}

#[test]
fn a_panic_of_an_asynchronous_read_ends_there() {
    let scratch = Scratch::new();
    let store = scratch.open();
    let (sender, receiver) = mpsc::channel::<()>();
    store
        .read_async(1, move |_| {
            let _sender = sender;
            panic!("a read")
        })
        .unwrap();
    assert!(receiver.recv().is_err());
    store.write(1, &value_of(1, 0)).unwrap();
    assert_eq!(wait_for(store.read_future(1)).unwrap(), Some(value_of(1, 0)));
}

/// A payload whose drop panics, with another one of the kind.
struct Hostile;

impl Drop for Hostile {
    fn drop(&mut self) {
        panic::panic_any(Hostile);
    }
}

#[test]
fn a_panic_in_the_drop_of_a_panic_ends_there() {
    let scratch = Scratch::new();
    let store = scratch.open();
    let (sender, receiver) = mpsc::channel::<()>();
    store
        .read_async(1, move |_| {
            let _sender = sender;
            panic::panic_any(Hostile)
        })
        .unwrap();
    assert!(receiver.recv().is_err());
    store.close().unwrap();
}

#[test]
fn a_read_that_is_not_started_drops_its_closure() {
    let scratch = Scratch::new();
    let mut options = small();
    options.async_read_limit(1).async_read_waits(false);
    let store = options.open(scratch.join("store")).unwrap();
    let (leave, stay) = mpsc::channel::<()>();
    let (sender, receiver) = mpsc::channel::<()>();
    store
        .read_async(1, move |_| {
            stay.recv().unwrap();
            drop(sender);
        })
        .unwrap();
    let kept = Arc::new(());
    let own = Arc::clone(&kept);
    let error = store.read_async(1, move |_| drop(own)).unwrap_err();
    assert_eq!(error.code(), Code::Busy);
    assert_eq!(Arc::strong_count(&kept), 1);
    assert_eq!(wait_for(store.read_future(1)).unwrap_err().code(), Code::Busy);
    leave.send(()).unwrap();
    receiver.recv().unwrap_err();
}

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// The least that waits for a future.
fn wait_for(mut future: ReadFuture) -> engine_race::Result<Option<Value>> {
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let mut context = Context::from_waker(&waker);
    loop {
        match Pin::new(&mut future).poll(&mut context) {
            Poll::Ready(read) => return read,
            Poll::Pending => thread::park(),
        }
    }
}

#[test]
fn futures() {
    let scratch = Scratch::new();
    let store = scratch.open();
    fill(&store, 0..100);
    let all: Vec<_> = (0..200u64).map(|key| store.read_future(key)).collect();
    drop(store.read_future(1));
    for (key, future) in (0..).zip(all) {
        assert_eq!(wait_for(future).unwrap(), (key < 100).then(|| value_of(key, 0)));
    }
    // It is there when the store has been closed.
    let last = store.read_future(5);
    store.close().unwrap();
    assert_eq!(wait_for(last).unwrap(), Some(value_of(5, 0)));
}
