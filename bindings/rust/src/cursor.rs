//! Walks that lend their values.

use std::fmt;
use std::marker::PhantomData;
use std::mem;
use std::ops::RangeBounds;
use std::ptr::{self, NonNull};
use std::slice;

use crate::error::{check, Result};
use crate::store::Store;
use crate::sys;
use crate::values::{check_values, Key, Room, Value};
use crate::view::{Bounds, View};

/// How a [`Cursor`] reads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct CursorOptions {
    /// Values that are read at once, at most 64. 0: chosen by how the cursor moves.
    pub prefetch_records: u32,
    /// Steps after which the cursor moves on to the latest state. 0: never.
    pub refresh_every_steps: u64,
}

/// A walk over the records of a range, both ways, at one state of the store.
///
/// It stands at a record, or at none, as at first. Calls that move it answer whether it stands at a
/// record then. [`Iter`](crate::Iter) is the `Iterator` beside it, which copies each value.
///
/// ```
/// # let dir = std::env::temp_dir().join(format!("er_cursor_{}", std::process::id()));
/// # let store = engine_race::Store::open(&dir)?;
/// store.write_many(&[1, 2, 3], &[[1; 4096], [2; 4096], [3; 4096]].concat())?;
/// let mut cursor = store.cursor(2..)?;
/// assert!(cursor.seek_to_last()?);
/// assert_eq!(cursor.key(), Some(3));
/// assert!(cursor.prev()?);
/// assert_eq!(cursor.value()?.unwrap()[0], 2);
/// assert!(!cursor.prev()?);
/// # drop(cursor);
/// # drop(store);
/// # std::fs::remove_dir_all(&dir).unwrap();
/// # engine_race::Result::Ok(())
/// ```
///
/// A value is lent until the cursor moves:
///
/// ```compile_fail,E0499
/// # let store = engine_race::Store::open("/tmp/never").unwrap();
/// # let mut cursor = store.cursor(..).unwrap();
/// let value = cursor.value().unwrap();
/// cursor.next().unwrap();
/// assert!(value.is_none());
/// ```
pub struct Cursor<'store> {
    handle: NonNull<sys::engine_race_iterator>,
    value_bytes: usize,
    store: PhantomData<&'store Store>,
}

// SAFETY: one thread at a time may use it, whichever that is.
unsafe impl Send for Cursor<'_> {}

impl<'store> Cursor<'store> {
    /// `view` is of that store, or of a snapshot that lives as long as the cursor.
    pub(crate) fn new(
        _store: &'store Store,
        view: View,
        range: &impl RangeBounds<u64>,
        options: CursorOptions,
    ) -> Result<Cursor<'store>> {
        let bounds = Bounds::of(range);
        let options = sys::engine_race_iterator_options {
            struct_bytes: mem::size_of::<sys::engine_race_iterator_options>(),
            snapshot: view.snapshot,
            lower: bounds.lower(),
            upper: bounds.upper(),
            prefetch_records: options.prefetch_records.into(),
            refresh_every_steps: options.refresh_every_steps,
        };
        let mut handle = ptr::null_mut();
        // SAFETY: the options and the bounds in them live; the library copies them.
        check(unsafe { sys::engine_race_iterator_create(view.store, &options, &mut handle) })?;
        let handle = NonNull::new(handle).expect("an iterator that was made");
        Ok(Cursor { handle, value_bytes: view.value_bytes, store: PhantomData })
    }

    fn handle(&self) -> *mut sys::engine_race_iterator {
        self.handle.as_ptr()
    }

    /// Moves it, and answers whether it stands at a record.
    #[inline]
    fn moved(
        &mut self,
        step: unsafe extern "C" fn(*mut sys::engine_race_iterator),
    ) -> Result<bool> {
        // SAFETY: the handle lives, and `&mut` keeps other calls away.
        unsafe { step(self.handle()) };
        self.stands()
    }

    #[inline]
    fn stands(&self) -> Result<bool> {
        if self.is_valid() {
            return Ok(true);
        }
        self.status()?;
        Ok(false)
    }

    /// # Errors
    ///
    /// The failure that has ended the walk.
    fn status(&self) -> Result<()> {
        // SAFETY: the handle lives. The cursor is not Sync, so no other thread uses it.
        check(unsafe { sys::engine_race_iterator_status(self.handle()) })
    }

    /// Whether it stands at a record.
    #[inline]
    pub fn is_valid(&self) -> bool {
        // SAFETY: as above.
        unsafe { sys::engine_race_iterator_valid(self.handle()) != 0 }
    }

    /// Moves to the first record of the range.
    ///
    /// # Errors
    ///
    /// Of this call and of all that move: [`Code::Corruption`](crate::Code::Corruption) and
    /// [`Code::IoError`](crate::Code::IoError). The next call that seeks tries again.
    pub fn seek_to_first(&mut self) -> Result<bool> {
        self.moved(sys::engine_race_iterator_seek_to_first)
    }

    /// Moves to the last record of the range.
    ///
    /// # Errors
    ///
    /// Those of [`Cursor::seek_to_first`].
    pub fn seek_to_last(&mut self) -> Result<bool> {
        self.moved(sys::engine_race_iterator_seek_to_last)
    }

    /// Moves to the first record at `key` or behind it.
    ///
    /// # Errors
    ///
    /// Those of [`Cursor::seek_to_first`].
    pub fn seek(&mut self, key: impl Key) -> Result<bool> {
        // SAFETY: as for `moved`.
        unsafe { sys::engine_race_iterator_seek(self.handle(), key.number()) };
        self.stands()
    }

    /// Moves to the last record at `key` or before it.
    ///
    /// # Errors
    ///
    /// Those of [`Cursor::seek_to_first`].
    pub fn seek_for_prev(&mut self, key: impl Key) -> Result<bool> {
        // SAFETY: as for `moved`.
        unsafe { sys::engine_race_iterator_seek_for_prev(self.handle(), key.number()) };
        self.stands()
    }

    /// Moves to the next record. Does nothing unless it stands at one.
    ///
    /// # Errors
    ///
    /// Those of [`Cursor::seek_to_first`].
    #[allow(clippy::should_implement_trait)]
    #[inline]
    pub fn next(&mut self) -> Result<bool> {
        self.moved(sys::engine_race_iterator_next)
    }

    /// Moves to the record before. Does nothing unless it stands at one.
    ///
    /// # Errors
    ///
    /// Those of [`Cursor::seek_to_first`].
    #[inline]
    pub fn prev(&mut self) -> Result<bool> {
        self.moved(sys::engine_race_iterator_prev)
    }

    /// The key of the record at which it stands.
    #[inline]
    pub fn key(&self) -> Option<u64> {
        // SAFETY: as for `status`.
        self.is_valid().then(|| unsafe { sys::engine_race_iterator_key(self.handle()) })
    }

    /// The value of the record at which it stands. This may read it.
    ///
    /// # Errors
    ///
    /// [`Code::Corruption`](crate::Code::Corruption) and [`Code::IoError`](crate::Code::IoError).
    /// It stands at no record then.
    #[inline]
    pub fn value(&mut self) -> Result<Option<&[u8]>> {
        // SAFETY: the value is good until the cursor is used again, which this borrow rules out. It
        // is as good until the store is closed, which the cursor's own borrow rules out.
        let value = unsafe {
            let value = sys::engine_race_iterator_value(self.handle());
            (!value.is_null()).then(|| slice::from_raw_parts(value.cast(), self.value_bytes))
        };
        if value.is_none() {
            self.status()?;
        }
        Ok(value)
    }

    /// Takes records from where it stands, in ascending order, and moves behind them. Answers how
    /// many there were: fewer than there is room for at the end of the walk and before a failure.
    ///
    /// One call of it costs less than a call for each record. Without `values` no value is read.
    ///
    /// # Errors
    ///
    /// Those of [`Cursor::seek_to_first`], where nothing was taken before.
    /// [`Code::InvalidArgument`](crate::Code::InvalidArgument) if there are `values`, and they have
    /// not the size of as many values as there are keys.
    pub fn take(&mut self, keys: &mut [u64], values: Option<&mut [u8]>) -> Result<usize> {
        let mut rows = ptr::null_mut();
        if let Some(values) = values {
            check_values(values.len(), keys.len(), self.value_bytes)?;
            rows = values.as_mut_ptr().cast();
        }
        let mut taken = 0;
        // SAFETY: there is room for so many keys, and values.
        let code = unsafe {
            let (count, first) = (keys.len(), keys.as_mut_ptr());
            sys::engine_race_iterator_take(self.handle(), count, first, rows, &mut taken)
        };
        match taken {
            0 => check(code).map(|()| 0),
            // The next call finds the failure.
            _ => Ok(taken),
        }
    }

    /// Takes one record into memory of its own.
    pub(crate) fn take_one(&mut self) -> Result<Option<(u64, Value)>> {
        let (mut key, mut room, mut taken) = (0, Room::new(self.value_bytes), 0);
        // SAFETY: there is room for one, which is filled when one was taken.
        unsafe {
            let row = room.pointer();
            let code = sys::engine_race_iterator_take(self.handle(), 1, &mut key, row, &mut taken);
            match taken {
                0 => check(code).map(|()| None),
                _ => Ok(Some((key, room.assume_filled()))),
            }
        }
    }

    /// Moves on to the latest state of the store, from that of a snapshot, too. It stands at no
    /// record then.
    ///
    /// # Errors
    ///
    /// Those of [`Store::cursor`].
    pub fn refresh(&mut self) -> Result<()> {
        // SAFETY: as for `moved`.
        check(unsafe { sys::engine_race_iterator_refresh(self.handle()) })
    }
}

impl Drop for Cursor<'_> {
    fn drop(&mut self) {
        // SAFETY: nothing else has the handle. The store is open, or this is a forked child.
        unsafe { sys::engine_race_iterator_destroy(self.handle()) };
    }
}

impl fmt::Debug for Cursor<'_> {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.debug_struct("Cursor").field("key", &self.key()).finish_non_exhaustive()
    }
}
