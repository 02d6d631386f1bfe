//! Batches.

use std::fmt;
use std::ptr::NonNull;

use crate::error::{check, Result};
use crate::sys;
use crate::values::{check_value, check_values, Key};

/// Writes and deletions that a store takes as a whole.
///
/// A batch copies its values. It belongs to no store and may be written several times, to stores
/// with values of its size. Later entries of a key win.
///
/// ```
/// # let dir = std::env::temp_dir().join(format!("er_batch_{}", std::process::id()));
/// # let store = engine_race::Store::open(&dir)?;
/// let mut batch = engine_race::Batch::new(store.value_bytes());
/// batch.write(7, &[1; 4096])?;
/// batch.delete(8)?;
/// store.write_batch(&batch)?;
/// # drop(store);
/// # std::fs::remove_dir_all(&dir).unwrap();
/// # engine_race::Result::Ok(())
/// ```
pub struct Batch {
    handle: NonNull<sys::engine_race_batch>,
    value_bytes: usize,
}

// SAFETY: one thread at a time may use it, whichever that is.
unsafe impl Send for Batch {}

impl Batch {
    /// An empty batch for values of this size, as of
    /// [`Store::value_bytes`](crate::Store::value_bytes).
    ///
    /// # Panics
    ///
    /// If no store has values of this size.
    pub fn new(value_bytes: usize) -> Batch {
        let size = u32::try_from(value_bytes).unwrap_or(0);
        // SAFETY: any size may be given.
        let handle = unsafe { sys::engine_race_batch_create(size) };
        assert!(
            !handle.is_null()
                || (sys::ENGINE_RACE_MIN_VALUE_BYTES..=sys::ENGINE_RACE_MAX_VALUE_BYTES)
                    .contains(&size),
            "no store has values of {} bytes",
            value_bytes
        );
        match NonNull::new(handle) {
            Some(handle) => Batch { handle, value_bytes },
            None => crate::memory_is_refused(),
        }
    }

    pub(crate) fn handle(&self) -> *mut sys::engine_race_batch {
        self.handle.as_ptr()
    }

    /// Adds a write.
    ///
    /// # Errors
    ///
    /// Of all calls that add: [`Code::OutOfMemory`](crate::Code::OutOfMemory), and
    /// [`Code::InvalidArgument`](crate::Code::InvalidArgument) for values of another size. The
    /// batch is as it was then.
    pub fn write(&mut self, key: impl Key, value: &[u8]) -> Result<()> {
        check_value(value.len(), self.value_bytes)?;
        let value = value.as_ptr().cast();
        // SAFETY: the handle lives, and the value has its size.
        check(unsafe { sys::engine_race_batch_write(self.handle(), key.number(), value) })
    }

    /// Adds many writes: the value at each place goes with the key at that place. Values lie one
    /// after another.
    ///
    /// # Errors
    ///
    /// Those of [`Batch::write`], also unless there are as many values as keys.
    pub fn write_many(&mut self, keys: &[u64], values: &[u8]) -> Result<()> {
        check_values(values.len(), keys.len(), self.value_bytes)?;
        let (count, first, rows) = (keys.len(), keys.as_ptr(), values.as_ptr().cast());
        // SAFETY: there are as many keys as values.
        check(unsafe { sys::engine_race_batch_write_many(self.handle(), count, first, rows) })
    }

    /// Adds a deletion.
    ///
    /// # Errors
    ///
    /// Those of [`Batch::write`].
    pub fn delete(&mut self, key: impl Key) -> Result<()> {
        // SAFETY: the handle lives.
        check(unsafe { sys::engine_race_batch_delete(self.handle(), key.number()) })
    }

    /// Makes room for these counts of entries in all.
    ///
    /// # Errors
    ///
    /// Those of [`Batch::write`].
    pub fn reserve(&mut self, write_count: usize, delete_count: usize) -> Result<()> {
        // SAFETY: the handle lives.
        check(unsafe { sys::engine_race_batch_reserve(self.handle(), write_count, delete_count) })
    }

    /// Drops all entries and keeps their memory for the next ones.
    pub fn clear(&mut self) {
        // SAFETY: the handle lives.
        unsafe { sys::engine_race_batch_clear(self.handle()) };
    }

    /// How many entries it has, earlier ones of a key included.
    pub fn len(&self) -> usize {
        // SAFETY: the handle lives. A batch is not Sync, so no other thread uses it.
        unsafe { sys::engine_race_batch_size(self.handle()) }
    }

    /// Whether it has no entries.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl Drop for Batch {
    fn drop(&mut self) {
        // SAFETY: nothing else has the handle.
        unsafe { sys::engine_race_batch_destroy(self.handle()) };
    }
}

impl fmt::Debug for Batch {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.debug_struct("Batch").field("len", &self.len()).finish_non_exhaustive()
    }
}
