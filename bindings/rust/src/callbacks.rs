//! Closures of the program that the library calls: no panic may leave them for its frames.

use std::any::Any;
use std::cell::Cell;
use std::mem;
use std::panic::{self, AssertUnwindSafe};

thread_local! {
    /// Functions of this thread's stack for whose return a closing store may wait.
    static AWAITED_COUNT: Cell<u32> = const { Cell::new(0) };
}

/// Marks a function of the log or of an asynchronous read while it lives.
pub(crate) struct Awaited(());

impl Awaited {
    pub(crate) fn begin() -> Awaited {
        AWAITED_COUNT.with(|count| count.set(count.get() + 1));
        Awaited(())
    }

    /// Whether this thread is in such a function: a store that it closes would wait for itself.
    pub(crate) fn is_running() -> bool {
        AWAITED_COUNT.with(|count| count.get() > 0)
    }
}

impl Drop for Awaited {
    fn drop(&mut self) {
        AWAITED_COUNT.with(|count| count.set(count.get() - 1));
    }
}

/// Calls `function`. A panic ends there: its hook has told of it, as in a thread that nobody joins.
pub(crate) fn contain(function: impl FnOnce()) {
    if let Err(payload) = panic::catch_unwind(AssertUnwindSafe(function)) {
        // Its drop may panic, and so may the drop of that panic's payload, without an end.
        if let Err(another) = panic::catch_unwind(AssertUnwindSafe(move || drop(payload))) {
            mem::forget(another);
        }
    }
}

/// The panic of a closure, until the call that called it has returned.
#[derive(Default)]
pub(crate) struct Caught(Option<Box<dyn Any + Send>>);

impl Caught {
    /// The answer of `function`, or none if it has panicked. It may not be called again then.
    #[inline]
    pub(crate) fn run<T>(&mut self, function: impl FnOnce() -> T) -> Option<T> {
        match panic::catch_unwind(AssertUnwindSafe(function)) {
            Ok(answer) => Some(answer),
            Err(payload) => {
                self.0 = Some(payload);
                None
            }
        }
    }

    /// Whether a closure has panicked.
    pub(crate) fn is_any(&self) -> bool {
        self.0.is_some()
    }

    /// Goes on with the panic.
    #[inline]
    pub(crate) fn resume(self) {
        if let Some(payload) = self.0 {
            panic::resume_unwind(payload);
        }
    }
}
