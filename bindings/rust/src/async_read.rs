//! Reads that end later, in a thread of the store.

use std::fmt;
use std::future::Future;
use std::mem;
use std::os::raw::{c_int, c_void};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use crate::callbacks::{contain, Awaited};
use crate::error::{check, found, Result};
use crate::store::Store;
use crate::sys;
use crate::values::{Room, Value};

type Outcome = Result<Option<Value>>;

/// Owned by the library from the start of a read until it calls `ended`.
struct Pending<F> {
    room: Room,
    done: F,
}

pub(crate) fn start<F>(store: &Store, key: u64, done: F) -> Result<()>
where
    F: FnOnce(Outcome) + Send + 'static,
{
    let pending = Box::into_raw(Box::new(Pending { room: Room::new(store.value_bytes()), done }));
    // SAFETY: the memory lives until `ended` is called, once. It may be gone when this returns Ok.
    unsafe {
        let value = (*pending).room.pointer();
        let done: sys::engine_race_done_fn = Some(ended::<F>);
        check(sys::engine_race_read_async(store.handle(), key, value, done, pending.cast()))
            .map_err(|error| {
                // `ended` is never called.
                drop(Box::from_raw(pending));
                error
            })
    }
}

unsafe extern "C" fn ended<F>(argument: *mut c_void, code: c_int)
where
    F: FnOnce(Outcome) + Send + 'static,
{
    let _awaited = Awaited::begin();
    contain(|| {
        let Pending { room, done } = *Box::from_raw(argument.cast::<Pending<F>>());
        done(found(code).map(|there| there.then(|| room.assume_filled())));
    });
}

/// A read that was started: see [`Store::read_future`]. It ends whether or not somebody waits.
#[must_use = "it does nothing with what it reads unless it is awaited"]
pub struct ReadFuture(Arc<Mutex<State>>);

enum State {
    Started(Option<Waker>),
    Ended(Outcome),
    Taken,
}

fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    // Nothing that is done under the lock panics halfway.
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

fn end(state: &Mutex<State>, outcome: Outcome) {
    let before = mem::replace(&mut *lock(state), State::Ended(outcome));
    if let State::Started(Some(waker)) = before {
        waker.wake();
    }
}

pub(crate) fn future(store: &Store, key: u64) -> ReadFuture {
    let state = Arc::new(Mutex::new(State::Started(None)));
    let ends = Arc::clone(&state);
    if let Err(error) = start(store, key, move |outcome| end(&ends, outcome)) {
        end(&state, Err(error));
    }
    ReadFuture(state)
}

impl Future for ReadFuture {
    type Output = Outcome;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Outcome> {
        let waker = context.waker().clone();
        let mut state = lock(&self.0);
        let before = match &mut *state {
            State::Started(waiting) => {
                let before = waiting.replace(waker);
                drop(state);
                drop(before);
                return Poll::Pending;
            }
            ended => mem::replace(ended, State::Taken),
        };
        drop(state);
        match before {
            State::Ended(outcome) => Poll::Ready(outcome),
            _ => panic!("a future was polled after it had ended"),
        }
    }
}

impl fmt::Debug for ReadFuture {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.debug_struct("ReadFuture").finish_non_exhaustive()
    }
}
