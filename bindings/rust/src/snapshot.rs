//! Snapshots.

use std::fmt;
use std::ops::{ControlFlow, RangeBounds};
use std::ptr::{self, NonNull};

use crate::cursor::{Cursor, CursorOptions};
use crate::error::{check, Result};
use crate::iter::{Iter, Keys};
use crate::store::Store;
use crate::sys;
use crate::values::{Key, Value, Values};
use crate::view::View;

/// One state of a store, which stays readable while writers go on. Any number of threads may read
/// it at once.
///
/// It blocks nobody. The space of records that it shows is not given back while it lives.
///
/// ```
/// # let dir = std::env::temp_dir().join(format!("er_snapshot_{}", std::process::id()));
/// # let store = engine_race::Store::open(&dir)?;
/// store.write(7, &[1; 4096])?;
/// let before = store.snapshot()?;
/// store.write(7, &[2; 4096])?;
/// assert_eq!(before.read(7)?.unwrap()[0], 1);
/// # drop(before);
/// # drop(store);
/// # std::fs::remove_dir_all(&dir).unwrap();
/// # engine_race::Result::Ok(())
/// ```
///
/// It ends before its store:
///
/// ```compile_fail,E0505
/// # let store = engine_race::Store::open("/tmp/never").unwrap();
/// let snapshot = store.snapshot().unwrap();
/// store.close().unwrap();
/// snapshot.read(7).unwrap();
/// ```
pub struct Snapshot<'store> {
    handle: NonNull<sys::engine_race_snapshot>,
    store: &'store Store,
}

// SAFETY: any number of threads may read a snapshot, and any one may free it.
unsafe impl Send for Snapshot<'_> {}
unsafe impl Sync for Snapshot<'_> {}

impl<'store> Snapshot<'store> {
    pub(crate) fn take(store: &'store Store) -> Result<Snapshot<'store>> {
        let mut handle = ptr::null_mut();
        // SAFETY: the store's handle lives.
        check(unsafe { sys::engine_race_snapshot_take(store.handle(), &mut handle) })?;
        let handle = NonNull::new(handle).expect("a snapshot that was taken");
        Ok(Snapshot { handle, store })
    }

    fn view(&self) -> View {
        View { snapshot: self.handle.as_ptr(), ..self.store.view() }
    }

    /// The store whose state it shows.
    pub fn store(&self) -> &'store Store {
        self.store
    }

    /// As [`Store::read`].
    ///
    /// # Errors
    ///
    /// [`Code::Corruption`](crate::Code::Corruption) and [`Code::IoError`](crate::Code::IoError).
    pub fn read(&self, key: impl Key) -> Result<Option<Value>> {
        self.view().read(key.number())
    }

    /// As [`Store::read_into`].
    ///
    /// # Errors
    ///
    /// Those of [`Snapshot::read`]. `value` is as it was then.
    pub fn read_into(&self, key: impl Key, value: &mut [u8]) -> Result<bool> {
        self.view().read_into(key.number(), value)
    }

    /// As [`Store::read_many`].
    ///
    /// # Errors
    ///
    /// Those of [`Store::read_many`].
    pub fn read_many(&self, keys: &[u64]) -> Result<Values> {
        self.view().read_many(keys)
    }

    /// As [`Store::read_many_into`].
    ///
    /// # Errors
    ///
    /// Those of [`Store::read_many_into`].
    pub fn read_many_into(&self, keys: &[u64], values: &mut [u8]) -> Result<Vec<Result<bool>>> {
        self.view().read_many_into(keys, values)
    }

    /// As [`Store::range`].
    ///
    /// # Errors
    ///
    /// Those of [`Snapshot::read`].
    pub fn range<F>(&self, range: impl RangeBounds<u64>, visit: F) -> Result<()>
    where
        F: FnMut(u64, &[u8]) -> ControlFlow<()>,
    {
        self.view().range(range, visit)
    }

    /// As [`Store::iter`], over the records that the snapshot shows.
    ///
    /// # Errors
    ///
    /// Those of [`Snapshot::read`]; later ones are items of the iterator.
    pub fn iter(&self, range: impl RangeBounds<u64>) -> Result<Iter<'_>> {
        self.cursor(range).map(Iter::new)
    }

    /// As [`Store::keys`], over the keys that the snapshot shows.
    ///
    /// # Errors
    ///
    /// Those of [`Snapshot::iter`].
    pub fn keys(&self, range: impl RangeBounds<u64>) -> Result<Keys<'_>> {
        self.cursor(range).map(Keys::new)
    }

    /// As [`Store::cursor`], over the records that the snapshot shows.
    ///
    /// # Errors
    ///
    /// Those of [`Snapshot::read`].
    pub fn cursor(&self, range: impl RangeBounds<u64>) -> Result<Cursor<'_>> {
        self.cursor_with(range, CursorOptions::default())
    }

    /// As [`Snapshot::cursor`], with options.
    ///
    /// # Errors
    ///
    /// Those of [`Snapshot::cursor`].
    pub fn cursor_with(
        &self,
        range: impl RangeBounds<u64>,
        options: CursorOptions,
    ) -> Result<Cursor<'_>> {
        Cursor::new(self.store, self.view(), &range, options)
    }
}

impl Drop for Snapshot<'_> {
    fn drop(&mut self) {
        // SAFETY: nothing else has the handle. The store is open, or this is a forked child.
        unsafe { sys::engine_race_snapshot_release(self.handle.as_ptr()) };
    }
}

impl fmt::Debug for Snapshot<'_> {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.debug_struct("Snapshot").finish_non_exhaustive()
    }
}
