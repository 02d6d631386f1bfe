//! Iterators of the standard library's kind.

use std::fmt;
use std::iter::FusedIterator;

use crate::cursor::Cursor;
use crate::error::Result;
use crate::values::Value;

/// The records of a range, in ascending order of key, or in descending order from its back.
///
/// All records are those of one state. After a failure there are no more. Taking from both ends in
/// turn costs a seek each time.
///
/// ```
/// # let dir = std::env::temp_dir().join(format!("er_iter_{}", std::process::id()));
/// # let store = engine_race::Store::open(&dir)?;
/// store.write_many(&[1, 2, 3], &[[1; 4096], [2; 4096], [3; 4096]].concat())?;
/// let (last_key, last_value) = store.iter(..3)?.rev().next().unwrap()?;
/// assert_eq!((last_key, last_value[0]), (2, 2));
/// let records = store.iter(..)?.collect::<engine_race::Result<Vec<_>>>()?;
/// assert_eq!(records.len(), 3);
/// # drop(store);
/// # std::fs::remove_dir_all(&dir).unwrap();
/// # engine_race::Result::Ok(())
/// ```
pub struct Iter<'store> {
    cursor: Cursor<'store>,
    place: Place,
    // The last keys that were given at each end.
    front: Option<u64>,
    back: Option<u64>,
}

/// Where the cursor stands: at the next record of one end, if there is one.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    Nowhere,
    AtFront,
    AtBack,
    Ended,
}

impl<'store> Iter<'store> {
    pub(crate) fn new(cursor: Cursor<'store>) -> Iter<'store> {
        Iter { cursor, place: Place::Nowhere, front: None, back: None }
    }

    /// Moves the cursor to the front, if it is not there. False: there is no record.
    fn go_to_front(&mut self) -> Result<bool> {
        match (self.place, self.front) {
            (Place::Ended, _) => return Ok(false),
            (Place::AtFront, _) => return Ok(true),
            (_, None) => self.cursor.seek_to_first()?,
            // Since then the back has given a record behind this key, so it is below the last key.
            (_, Some(key)) => self.cursor.seek(key + 1)?,
        };
        self.place = Place::AtFront;
        Ok(true)
    }

    fn go_to_back(&mut self) -> Result<bool> {
        match (self.place, self.back) {
            (Place::Ended, _) => return Ok(false),
            (Place::AtBack, _) => return Ok(true),
            (_, None) => self.cursor.seek_to_last()?,
            // Nor is it the first one, for the front.
            (_, Some(key)) => self.cursor.seek_for_prev(key - 1)?,
        };
        self.place = Place::AtBack;
        Ok(true)
    }

    fn take_front(&mut self) -> Result<Option<(u64, Value)>> {
        if !self.go_to_front()? {
            return Ok(None);
        }
        if let Some(back) = self.back {
            // From the cursor's end on, the other end has given all.
            if self.cursor.key().map_or(false, |key| key >= back) {
                return Ok(None);
            }
        }
        let taken = self.cursor.take_one()?;
        if let Some((key, _)) = &taken {
            self.front = Some(*key);
        }
        Ok(taken)
    }

    fn take_back(&mut self) -> Result<Option<(u64, Value)>> {
        if !self.go_to_back()? {
            return Ok(None);
        }
        let key = match self.cursor.key() {
            Some(key) if self.front.map_or(true, |front| key > front) => key,
            _ => return Ok(None),
        };
        let value = match self.cursor.value()? {
            Some(value) => Value::from(value),
            None => return Ok(None),
        };
        self.back = Some(key);
        // A failure to move on is the next record's.
        if self.cursor.prev().is_err() {
            self.place = Place::Nowhere;
        }
        Ok(Some((key, value)))
    }

    /// Ends the walk with its last record and with a failure.
    fn given(&mut self, taken: Result<Option<(u64, Value)>>) -> Option<Result<(u64, Value)>> {
        let given = taken.transpose();
        if !matches!(given, Some(Ok(_))) {
            self.place = Place::Ended;
        }
        given
    }
}

impl Iterator for Iter<'_> {
    type Item = Result<(u64, Value)>;

    fn next(&mut self) -> Option<Self::Item> {
        let taken = self.take_front();
        self.given(taken)
    }
}

impl DoubleEndedIterator for Iter<'_> {
    fn next_back(&mut self) -> Option<Self::Item> {
        let taken = self.take_back();
        self.given(taken)
    }
}

impl FusedIterator for Iter<'_> {}

impl fmt::Debug for Iter<'_> {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut fields = to.debug_struct("Iter");
        fields.field("front", &self.front).field("back", &self.back).finish_non_exhaustive()
    }
}

/// The keys of a range in ascending order, at one state. No value is read.
///
/// ```
/// # let dir = std::env::temp_dir().join(format!("er_keys_{}", std::process::id()));
/// # let store = engine_race::Store::open(&dir)?;
/// store.write_many(&[1, 2, 3], &[0; 3 * 4096])?;
/// assert_eq!(store.keys(2..)?.count(), 2);
/// # drop(store);
/// # std::fs::remove_dir_all(&dir).unwrap();
/// # engine_race::Result::Ok(())
/// ```
pub struct Keys<'store> {
    cursor: Cursor<'store>,
    // Keys that were taken together: those from `at` on are still to be given.
    batch: Vec<u64>,
    at: usize,
    is_begun: bool,
    is_ended: bool,
}

/// Keys that one call of the library takes.
const BATCH_KEYS: usize = 256;

impl<'store> Keys<'store> {
    pub(crate) fn new(cursor: Cursor<'store>) -> Keys<'store> {
        Keys { cursor, batch: Vec::new(), at: 0, is_begun: false, is_ended: false }
    }

    fn take_batch(&mut self) -> Result<()> {
        if !self.is_begun {
            self.cursor.seek_to_first()?;
            self.is_begun = true;
        }
        self.at = 0;
        self.batch.resize(BATCH_KEYS, 0);
        let taken = self.cursor.take(&mut self.batch, None);
        self.batch.truncate(*taken.as_ref().unwrap_or(&0));
        taken.map(drop)
    }
}

impl Iterator for Keys<'_> {
    type Item = Result<u64>;

    fn next(&mut self) -> Option<Result<u64>> {
        if self.at == self.batch.len() {
            if self.is_ended {
                return None;
            }
            let taken = self.take_batch();
            self.is_ended = taken.is_err() || self.batch.is_empty();
            if let Err(error) = taken {
                return Some(Err(error));
            }
            if self.is_ended {
                return None;
            }
        }
        self.at += 1;
        Some(Ok(self.batch[self.at - 1]))
    }
}

impl FusedIterator for Keys<'_> {}

impl fmt::Debug for Keys<'_> {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.debug_struct("Keys").finish_non_exhaustive()
    }
}
