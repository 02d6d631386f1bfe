//! The end of a store.

use std::mem::ManuallyDrop;
use std::ptr::NonNull;
use std::sync::Arc;
use std::thread;

use crate::callbacks::Awaited;
use crate::error::{check, Result};
use crate::log::Log;
use crate::sys;

/// A store that is to be closed. Dropped, it leaves the store open, and the log to the store.
pub(crate) struct Closing {
    handle: NonNull<sys::engine_race_store>,
    log: ManuallyDrop<Option<Arc<Log>>>,
}

// SAFETY: any thread may close a store.
unsafe impl Send for Closing {}

impl Closing {
    pub(crate) fn new(handle: NonNull<sys::engine_race_store>, log: Option<Arc<Log>>) -> Closing {
        Closing { handle, log: ManuallyDrop::new(log) }
    }

    /// Closes the store, or has another thread close it where this one would wait for itself.
    pub(crate) fn run(self) -> Result<()> {
        if Awaited::is_running() {
            // Without a thread the store stays open.
            let _ = thread::Builder::new().spawn(move || self.close());
            return Ok(());
        }
        self.close()
    }

    fn close(self) -> Result<()> {
        // SAFETY: the handle is the store's, whose last call this is.
        check(unsafe { sys::engine_race_close(self.handle.as_ptr()) })?;
        // In a forked child the closure belongs to the parent's store.
        drop(ManuallyDrop::into_inner(self.log));
        Ok(())
    }
}
