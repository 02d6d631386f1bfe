//! Stores.

use std::fmt;
use std::mem::ManuallyDrop;
use std::ops::{ControlFlow, RangeBounds};
use std::path::Path;
use std::ptr::{self, NonNull};
use std::sync::Arc;

use crate::async_read::{self, ReadFuture};
use crate::batch::Batch;
use crate::closing::Closing;
use crate::cursor::{Cursor, CursorOptions};
use crate::error::{check, check_many, ManyError, Result};
use crate::iter::{Iter, Keys};
use crate::log::Log;
use crate::options::{c_path, Options};
use crate::snapshot::Snapshot;
use crate::sys;
use crate::values::{check_value, check_values, Key, Value, Values};
use crate::view::View;

/// An open store. Any number of threads may use it at once, by references or in an `Arc`.
///
/// Dropping it closes it, and waits for calls and asynchronous reads that are under way. In a
/// function of the log or of an asynchronous read, another thread goes on with that.
///
/// A read answers "no such key" as `None` or `false`. Every call can fail with
/// [`Code::OutOfMemory`](crate::Code::OutOfMemory), and with
/// [`Code::InvalidArgument`](crate::Code::InvalidArgument) for a key outside of the option
/// `key_range`.
pub struct Store {
    handle: NonNull<sys::engine_race_store>,
    value_bytes: usize,
    // The library calls it until the store is closed.
    log: Option<Arc<Log>>,
}

// SAFETY: every call of a store may come from any number of threads. A log is Send and Sync.
unsafe impl Send for Store {}
unsafe impl Sync for Store {}

impl Store {
    /// Opens the store in `directory` with the default options. It is made when missing.
    ///
    /// # Errors
    ///
    /// Those of [`Options::open`].
    pub fn open(directory: impl AsRef<Path>) -> Result<Store> {
        Options::new().open(directory)
    }

    pub(crate) fn open_with(options: &Options, directory: &Path) -> Result<Store> {
        let directory = c_path(directory)?;
        let mut handle = ptr::null_mut();
        // SAFETY: the text ends with a 0, and the options live.
        check(unsafe {
            sys::engine_race_open(directory.as_ptr(), options.checked()?, &mut handle)
        })?;
        let handle = NonNull::new(handle).expect("a store that was opened");
        // SAFETY: the store was opened just now.
        let value_bytes = unsafe { sys::engine_race_value_bytes(handle.as_ptr()) } as usize;
        Ok(Store { handle, value_bytes, log: options.shared_log() })
    }

    /// Closes the store, and waits for calls and asynchronous reads that are under way.
    ///
    /// # Errors
    ///
    /// [`Code::InvalidArgument`](crate::Code::InvalidArgument) in a forked child.
    pub fn close(self) -> Result<()> {
        let mut store = ManuallyDrop::new(self);
        store.shut()
    }

    /// Closes it; the store is not used again.
    fn shut(&mut self) -> Result<()> {
        Closing::new(self.handle, self.log.take()).run()
    }

    pub(crate) fn handle(&self) -> *mut sys::engine_race_store {
        self.handle.as_ptr()
    }

    pub(crate) fn view(&self) -> View {
        View { store: self.handle(), snapshot: ptr::null(), value_bytes: self.value_bytes }
    }

    /// The size of every value: see [`Options::value_bytes`].
    #[inline]
    pub fn value_bytes(&self) -> usize {
        self.value_bytes
    }

    /// Writes a record. Once it is `Ok`, the record outlives the process, however that ends.
    ///
    /// # Errors
    ///
    /// [`Code::Full`](crate::Code::Full), [`Code::IoError`](crate::Code::IoError) and
    /// [`Code::Corruption`](crate::Code::Corruption). `Store::Write` in `engine_race/store.h` says
    /// when the record may be there after a failure.
    /// [`Code::InvalidArgument`](crate::Code::InvalidArgument) for a value of another size.
    #[inline]
    pub fn write(&self, key: impl Key, value: &[u8]) -> Result<()> {
        check_value(value.len(), self.value_bytes)?;
        // SAFETY: the handle lives, and the value has its size.
        check(unsafe { sys::engine_race_write(self.handle(), key.number(), value.as_ptr().cast()) })
    }

    /// Deletes a record. Deleting what is not there succeeds.
    ///
    /// # Errors
    ///
    /// Those of [`Store::write`].
    #[inline]
    pub fn delete(&self, key: impl Key) -> Result<()> {
        // SAFETY: the handle lives.
        check(unsafe { sys::engine_race_delete(self.handle(), key.number()) })
    }

    /// Reads a record into memory of its own. None: there is no such key.
    ///
    /// # Errors
    ///
    /// [`Code::Corruption`](crate::Code::Corruption) and [`Code::IoError`](crate::Code::IoError).
    #[inline]
    pub fn read(&self, key: impl Key) -> Result<Option<Value>> {
        self.view().read(key.number())
    }

    /// Reads a record into memory of the caller. False: there is no such key, and `value` is as it
    /// was.
    ///
    /// # Errors
    ///
    /// Those of [`Store::read`], and [`Code::InvalidArgument`](crate::Code::InvalidArgument) for a
    /// slice of another size. `value` is as it was then.
    #[inline]
    pub fn read_into(&self, key: impl Key, value: &mut [u8]) -> Result<bool> {
        self.view().read_into(key.number(), value)
    }

    /// Reads many keys, with many reads in flight. A thousand keys a call are plenty.
    ///
    /// ```
    /// # let dir = std::env::temp_dir().join(format!("er_many_{}", std::process::id()));
    /// # let store = engine_race::Store::open(&dir)?;
    /// store.write_many(&[1, 2], &[[1; 4096], [2; 4096]].concat())?;
    /// let values = store.read_many(&[2, 3])?;
    /// assert_eq!(values.get(0)?.unwrap()[0], 2);
    /// assert!(values.get(1)?.is_none());
    /// # drop(store);
    /// # std::fs::remove_dir_all(&dir).unwrap();
    /// # engine_race::Result::Ok(())
    /// ```
    ///
    /// # Errors
    ///
    /// Each key has its own result. The call fails if nothing was read, and with
    /// [`Code::Incomplete`](crate::Code::Incomplete) when it is [cancelled](crate::with_progress).
    pub fn read_many(&self, keys: &[u64]) -> Result<Values> {
        self.view().read_many(keys)
    }

    /// As [`Store::read_many`], into memory of the caller, one value after another. For each key it
    /// answers whether the key is there. A value that was not read is as it was.
    ///
    /// # Errors
    ///
    /// Those of [`Store::read_many`], and [`Code::InvalidArgument`](crate::Code::InvalidArgument)
    /// unless `values` has the size of as many values as there are keys.
    pub fn read_many_into(&self, keys: &[u64], values: &mut [u8]) -> Result<Vec<Result<bool>>> {
        self.view().read_many_into(keys, values)
    }

    /// Starts a read and returns. `done` is called once with the result, by a thread of the store
    /// or before this returns. It may not block. A panic in it ends there. Of the store it may call
    /// `read_async`, `read_future` and the statistics: `read_many` might wait for this very thread.
    ///
    /// The option `async_read_limit` bounds the reads that are pending. At the limit this waits
    /// until a `done` has returned, so hold no lock that `done` takes. In `done` it never waits.
    ///
    /// ```
    /// # let dir = std::env::temp_dir().join(format!("er_async_{}", std::process::id()));
    /// # let store = engine_race::Store::open(&dir)?;
    /// store.write(7, &[1; 4096])?;
    /// let (sender, receiver) = std::sync::mpsc::channel();
    /// store.read_async(7, move |read| sender.send(read).unwrap())?;
    /// assert_eq!(receiver.recv().unwrap()?.unwrap()[0], 1);
    /// # drop(store);
    /// # std::fs::remove_dir_all(&dir).unwrap();
    /// # engine_race::Result::Ok(())
    /// ```
    ///
    /// # Errors
    ///
    /// `done` is not called then. [`Code::Busy`](crate::Code::Busy) at the limit, where the option
    /// `async_read_waits` is false, and for further reads of a `done`.
    pub fn read_async<F>(&self, key: impl Key, done: F) -> Result<()>
    where
        F: FnOnce(Result<Option<Value>>) + Send + 'static,
    {
        async_read::start(self, key.number(), done)
    }

    /// Starts a read, as [`Store::read_async`], and answers a future of it. No runtime is needed.
    ///
    /// A future that is dropped leaves the read to its end. With the option `async_read_waits`
    /// false this never blocks, and the future fails with [`Code::Busy`](crate::Code::Busy) at the
    /// limit.
    pub fn read_future(&self, key: impl Key) -> ReadFuture {
        async_read::future(self, key.number())
    }

    /// Writes many records in order: the value at each place goes with the key at that place.
    /// Values lie one after another.
    ///
    /// # Errors
    ///
    /// It stops at the first failure, and where it is [cancelled](crate::with_progress).
    /// [`Code::InvalidArgument`](crate::Code::InvalidArgument) unless `values` has the size of as
    /// many values as there are keys.
    pub fn write_many(&self, keys: &[u64], values: &[u8]) -> std::result::Result<(), ManyError> {
        check_values(values.len(), keys.len(), self.value_bytes)
            .map_err(|error| ManyError { error, done_count: 0 })?;
        let mut written = 0;
        // SAFETY: the handle lives; there are as many keys as values.
        let code = unsafe {
            let rows = values.as_ptr().cast();
            sys::engine_race_write_many(
                self.handle(),
                keys.len(),
                keys.as_ptr(),
                rows,
                &mut written,
            )
        };
        check_many(code, written)
    }

    /// Deletes many records in order.
    ///
    /// # Errors
    ///
    /// Those of [`Store::write_many`].
    pub fn delete_many(&self, keys: &[u64]) -> std::result::Result<(), ManyError> {
        let mut deleted = 0;
        // SAFETY: the handle lives, and there are so many keys.
        let code = unsafe {
            let (count, first) = (keys.len(), keys.as_ptr());
            sys::engine_race_delete_many(self.handle(), count, first, &mut deleted)
        };
        check_many(code, deleted)
    }

    /// Writes all entries of a batch or none. `docs/using.md` says what a power loss leaves.
    ///
    /// # Errors
    ///
    /// Those of [`Store::write`], also for a batch of values of another size.
    pub fn write_batch(&self, batch: &Batch) -> Result<()> {
        // SAFETY: both handles live.
        check(unsafe { sys::engine_race_write_batch(self.handle(), batch.handle()) })
    }

    /// Once it is `Ok`, writes that were acknowledged before outlive a power loss.
    ///
    /// # Errors
    ///
    /// [`Code::Full`](crate::Code::Full), [`Code::IoError`](crate::Code::IoError) and
    /// [`Code::Corruption`](crate::Code::Corruption).
    pub fn sync(&self) -> Result<()> {
        // SAFETY: the handle lives.
        check(unsafe { sys::engine_race_sync(self.handle()) })
    }

    /// Of a store that was opened with [`Options::follow`](crate::Options::follow): once it is
    /// `Ok`, reads see what its writer had acknowledged before.
    ///
    /// # Errors
    ///
    /// [`Code::NotSupported`](crate::Code::NotSupported) without that option.
    /// [`Code::IoError`](crate::Code::IoError) if the store was removed or replaced, and
    /// [`Code::Incomplete`](crate::Code::Incomplete) if it needs a recovery.
    pub fn refresh(&self) -> Result<()> {
        // SAFETY: the handle lives.
        check(unsafe { sys::engine_race_refresh(self.handle()) })
    }

    /// Gives back the space of overwritten and deleted records, and syncs the store. Other calls
    /// go on meanwhile. Space that a snapshot or an iterator can see stays.
    ///
    /// # Errors
    ///
    /// Those of [`Store::sync`]; a failure loses no record.
    pub fn compact(&self) -> Result<()> {
        // SAFETY: the handle lives.
        check(unsafe { sys::engine_race_compact(self.handle()) })
    }

    /// Visits the records in ascending order of key, until `visit` breaks. It may use the store.
    ///
    /// ```
    /// use std::ops::ControlFlow;
    /// # let dir = std::env::temp_dir().join(format!("er_range_{}", std::process::id()));
    /// # let store = engine_race::Store::open(&dir)?;
    ///
    /// store.write_many(&[1, 2, 3], &[0; 3 * 4096])?;
    /// let mut keys = Vec::new();
    /// store.range(2.., |key, _value| {
    ///     keys.push(key);
    ///     ControlFlow::Continue(())
    /// })?;
    /// assert_eq!(keys, [2, 3]);
    /// # drop(store);
    /// # std::fs::remove_dir_all(&dir).unwrap();
    /// # engine_race::Result::Ok(())
    /// ```
    ///
    /// # Errors
    ///
    /// Those of [`Store::read`].
    pub fn range<F>(&self, range: impl RangeBounds<u64>, visit: F) -> Result<()>
    where
        F: FnMut(u64, &[u8]) -> ControlFlow<()>,
    {
        self.view().range(range, visit)
    }

    /// Iterates over the records of a range, from both ends, at the state of now.
    ///
    /// # Errors
    ///
    /// Those of [`Store::read`]; later ones are items of the iterator.
    pub fn iter(&self, range: impl RangeBounds<u64>) -> Result<Iter<'_>> {
        self.cursor(range).map(Iter::new)
    }

    /// Iterates over the keys of a range in ascending order, and reads no value.
    ///
    /// # Errors
    ///
    /// Those of [`Store::iter`].
    pub fn keys(&self, range: impl RangeBounds<u64>) -> Result<Keys<'_>> {
        self.cursor(range).map(Keys::new)
    }

    /// A walk over the records of a range, at the state of now, that lends its values.
    ///
    /// # Errors
    ///
    /// Those of [`Store::read`].
    pub fn cursor(&self, range: impl RangeBounds<u64>) -> Result<Cursor<'_>> {
        self.cursor_with(range, CursorOptions::default())
    }

    /// As [`Store::cursor`], with options.
    ///
    /// # Errors
    ///
    /// Those of [`Store::cursor`].
    pub fn cursor_with(
        &self,
        range: impl RangeBounds<u64>,
        options: CursorOptions,
    ) -> Result<Cursor<'_>> {
        Cursor::new(self, self.view(), &range, options)
    }

    /// A state of the store that stays readable while writers go on.
    ///
    /// # Errors
    ///
    /// Those of [`Store::read`].
    pub fn snapshot(&self) -> Result<Snapshot<'_>> {
        Snapshot::take(self)
    }
}

impl Drop for Store {
    fn drop(&mut self) {
        // It fails in a forked child alone, where nothing is to be done.
        let _ = self.shut();
    }
}

impl fmt::Debug for Store {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.debug_struct("Store").finish_non_exhaustive()
    }
}
