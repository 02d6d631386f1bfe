//! Reads of one state: the latest one of a store, or that of a snapshot.

use std::ops::{Bound, ControlFlow, RangeBounds};
use std::os::raw::{c_int, c_void};
use std::ptr;
use std::slice;

use crate::callbacks::Caught;
use crate::error::{check, found, Error, Result};
use crate::sys;
use crate::values::{check_value, check_values, Room, Value, Values};

/// A state to read. Callers see to it that the handles live during each call.
#[derive(Clone, Copy)]
pub(crate) struct View {
    pub(crate) store: *mut sys::engine_race_store,
    /// Null: the latest state.
    pub(crate) snapshot: *const sys::engine_race_snapshot,
    /// Of the store.
    pub(crate) value_bytes: usize,
}

/// The bounds of a call: the lower one is included, the upper one is not.
pub(crate) struct Bounds {
    lower: Option<u64>,
    upper: Option<u64>,
}

impl Bounds {
    pub(crate) fn of(range: &impl RangeBounds<u64>) -> Bounds {
        let lower = match range.start_bound() {
            Bound::Unbounded => Some(None),
            Bound::Included(&key) => Some(Some(key)),
            Bound::Excluded(&key) => key.checked_add(1).map(Some),
        };
        let upper = match range.end_bound() {
            Bound::Unbounded => None,
            // Above the last key there is no bound.
            Bound::Included(&key) => key.checked_add(1),
            Bound::Excluded(&key) => Some(key),
        };
        match (lower, upper) {
            (Some(Some(from)), Some(to)) if from > to => Bounds::EMPTY,
            (Some(lower), upper) => Bounds { lower, upper },
            (None, _) => Bounds::EMPTY,
        }
    }

    const EMPTY: Bounds = Bounds { lower: Some(0), upper: Some(0) };

    pub(crate) fn lower(&self) -> *const u64 {
        pointer_to(&self.lower)
    }

    pub(crate) fn upper(&self) -> *const u64 {
        pointer_to(&self.upper)
    }
}

fn pointer_to(key: &Option<u64>) -> *const u64 {
    key.as_ref().map_or(ptr::null(), |key| key as *const u64)
}

impl View {
    /// # Safety
    ///
    /// `value` has room for a value.
    #[inline]
    unsafe fn read_at(self, key: u64, value: *mut c_void) -> c_int {
        if self.snapshot.is_null() {
            sys::engine_race_read(self.store, key, value)
        } else {
            sys::engine_race_snapshot_read(self.snapshot, key, value)
        }
    }

    #[inline]
    pub(crate) fn read_into(self, key: u64, value: &mut [u8]) -> Result<bool> {
        check_value(value.len(), self.value_bytes)?;
        // SAFETY: the slice has this room.
        found(unsafe { self.read_at(key, value.as_mut_ptr().cast()) })
    }

    pub(crate) fn read(self, key: u64) -> Result<Option<Value>> {
        let mut room = Room::new(self.value_bytes);
        // SAFETY: it has this room, and is filled when the key is there.
        unsafe {
            let there = found(self.read_at(key, room.pointer()))?;
            Ok(there.then(|| room.assume_filled()))
        }
    }

    pub(crate) fn read_many_into(
        self,
        keys: &[u64],
        values: &mut [u8],
    ) -> Result<Vec<Result<bool>>> {
        check_values(values.len(), keys.len(), self.value_bytes)?;
        let mut codes: Vec<c_int> = vec![0; keys.len()];
        let (count, first_key) = (keys.len(), keys.as_ptr());
        let (rows, codes_at) = (values.as_mut_ptr().cast(), codes.as_mut_ptr());
        // SAFETY: there are `count` keys and codes, and room for as many values.
        check(unsafe {
            if self.snapshot.is_null() {
                sys::engine_race_read_many(self.store, count, first_key, rows, codes_at)
            } else {
                let snapshot = self.snapshot;
                sys::engine_race_snapshot_read_many(snapshot, count, first_key, rows, codes_at)
            }
        })?;
        Ok(codes.into_iter().map(found_of_many).collect())
    }

    pub(crate) fn read_many(self, keys: &[u64]) -> Result<Values> {
        // The system gives pages of zeros when they are first written.
        let mut values = vec![0; keys.len() * self.value_bytes];
        let found = self.read_many_into(keys, &mut values)?;
        Ok(Values { values, value_bytes: self.value_bytes, found })
    }

    pub(crate) fn range<F>(self, range: impl RangeBounds<u64>, visit: F) -> Result<()>
    where
        F: FnMut(u64, &[u8]) -> ControlFlow<()>,
    {
        let bounds = Bounds::of(&range);
        let (lower, upper) = (bounds.lower(), bounds.upper());
        let value_bytes = self.value_bytes;
        let mut visitor = Visitor { visit, value_bytes, caught: Caught::default() };
        let argument: *mut Visitor<F> = &mut visitor;
        let argument = argument.cast();
        let visit: sys::engine_race_visit_fn = Some(visited::<F>);
        // SAFETY: the bounds and the visitor live until the call returns. It calls the visitor in
        // this thread, one record after another.
        let code = unsafe {
            if self.snapshot.is_null() {
                sys::engine_race_range(self.store, lower, upper, visit, argument)
            } else {
                sys::engine_race_snapshot_range(self.snapshot, lower, upper, visit, argument)
            }
        };
        let walked = check(code);
        visitor.caught.resume();
        walked
    }
}

fn found_of_many(code: c_int) -> Result<bool> {
    match code {
        sys::ENGINE_RACE_OK => Ok(true),
        sys::ENGINE_RACE_NOT_FOUND => Ok(false),
        _ => Err(Error::of_key(code)),
    }
}

struct Visitor<F> {
    visit: F,
    value_bytes: usize,
    caught: Caught,
}

unsafe extern "C" fn visited<F>(argument: *mut c_void, key: u64, value: *const c_void) -> c_int
where
    F: FnMut(u64, &[u8]) -> ControlFlow<()>,
{
    let Visitor { visit, value_bytes, caught } = &mut *argument.cast::<Visitor<F>>();
    let value = slice::from_raw_parts(value.cast::<u8>(), *value_bytes);
    let goes_on = matches!(caught.run(|| visit(key, value)), Some(ControlFlow::Continue(())));
    c_int::from(!goes_on)
}
