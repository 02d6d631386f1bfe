//! Keys and values.

use std::fmt;
use std::ops::{Deref, DerefMut};
use std::os::raw::c_void;

use crate::error::{Code, Error, Result};
use crate::sys;

/// The size of a key, in bytes.
pub const KEY_BYTES: usize = sys::ENGINE_RACE_KEY_BYTES;
/// The size of a value in bytes, unless a store is made with another one.
pub const VALUE_BYTES: usize = sys::ENGINE_RACE_VALUE_BYTES;

mod sealed {
    pub trait Sealed {}
    impl Sealed for u64 {}
    impl Sealed for [u8; super::KEY_BYTES] {}
    impl Sealed for &[u8; super::KEY_BYTES] {}
}

/// A key: a number, or 8 bytes. The bytes are the number in big-endian order, so numbers and bytes
/// are ordered alike.
///
/// ```
/// use engine_race::Key;
///
/// assert_eq!(Key::number(*b"8 bytes!"), u64::from_be_bytes(*b"8 bytes!"));
/// assert_eq!(Key::number(7), 7);
/// ```
pub trait Key: sealed::Sealed + Copy {
    /// The key as a number.
    fn number(self) -> u64;
}

impl Key for u64 {
    #[inline]
    fn number(self) -> u64 {
        self
    }
}

impl Key for [u8; KEY_BYTES] {
    #[inline]
    fn number(self) -> u64 {
        u64::from_be_bytes(self)
    }
}

impl Key for &[u8; KEY_BYTES] {
    #[inline]
    fn number(self) -> u64 {
        u64::from_be_bytes(*self)
    }
}

/// A value that was read: bytes on the heap, as many as the values of its store have.
///
/// ```
/// use engine_race::Value;
///
/// let mut value = Value::zeroed(100);
/// value[0] = 7;
/// let bytes: &[u8] = &value;
/// assert_eq!(Value::from(bytes), value);
/// ```
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Value(Box<[u8]>);

impl Value {
    /// A value of so many zeros.
    pub fn zeroed(value_bytes: usize) -> Value {
        Value(vec![0; value_bytes].into_boxed_slice())
    }

    /// The memory itself.
    pub fn into_boxed_slice(self) -> Box<[u8]> {
        self.0
    }
}

impl Deref for Value {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        &self.0
    }
}

impl DerefMut for Value {
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.0
    }
}

impl AsRef<[u8]> for Value {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

impl From<&[u8]> for Value {
    fn from(bytes: &[u8]) -> Value {
        Value(bytes.into())
    }
}

impl From<Box<[u8]>> for Value {
    fn from(bytes: Box<[u8]>) -> Value {
        Value(bytes)
    }
}

impl PartialEq<[u8]> for Value {
    fn eq(&self, other: &[u8]) -> bool {
        *self.0 == *other
    }
}

impl PartialEq<Value> for [u8] {
    fn eq(&self, other: &Value) -> bool {
        *self == *other.0
    }
}

impl<const N: usize> PartialEq<[u8; N]> for Value {
    fn eq(&self, other: &[u8; N]) -> bool {
        *self.0 == *other
    }
}

impl<const N: usize> PartialEq<Value> for [u8; N] {
    fn eq(&self, other: &Value) -> bool {
        *self == *other.0
    }
}

/// The first 16 bytes.
impl fmt::Debug for Value {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(to, "Value({:02x?}...)", &self.0[..self.0.len().min(16)])
    }
}

/// Memory for a value that a call fills.
pub(crate) struct Room {
    // Without elements.
    bytes: Vec<u8>,
    value_bytes: usize,
}

impl Room {
    #[inline]
    pub(crate) fn new(value_bytes: usize) -> Room {
        Room { bytes: Vec::with_capacity(value_bytes), value_bytes }
    }

    #[inline]
    pub(crate) fn pointer(&mut self) -> *mut c_void {
        self.bytes.as_mut_ptr().cast()
    }

    /// # Safety
    ///
    /// All of it has been written.
    #[inline]
    pub(crate) unsafe fn assume_filled(mut self) -> Value {
        self.bytes.set_len(self.value_bytes);
        Value(self.bytes.into_boxed_slice())
    }
}

/// # Errors
///
/// [`Code::InvalidArgument`] unless `given_bytes` are those of a value.
#[inline]
pub(crate) fn check_value(given_bytes: usize, value_bytes: usize) -> Result<()> {
    check_values(given_bytes, 1, value_bytes)
}

/// # Errors
///
/// [`Code::InvalidArgument`] unless `given_bytes` are those of so many values.
#[inline]
pub(crate) fn check_values(given_bytes: usize, count: usize, value_bytes: usize) -> Result<()> {
    if Some(given_bytes) == count.checked_mul(value_bytes) {
        return Ok(());
    }
    Err(wrong_size(given_bytes, count, value_bytes))
}

#[cold]
fn wrong_size(given_bytes: usize, count: usize, value_bytes: usize) -> Error {
    let what = match count {
        1 => format!("a value has {} bytes", value_bytes),
        _ => format!("{} values have {} bytes each", count, value_bytes),
    };
    Error::new(Code::InvalidArgument, format!("{}, and {} are given", what, given_bytes))
}

/// The results of a read of many keys, in the order of the keys.
///
/// Its memory is one piece, whatever was found. [`Store::read_many`](crate::Store::read_many) has
/// an example.
#[derive(Clone)]
pub struct Values {
    pub(crate) values: Vec<u8>,
    pub(crate) value_bytes: usize,
    pub(crate) found: Vec<Result<bool>>,
}

impl Values {
    /// How many keys were read.
    pub fn len(&self) -> usize {
        self.found.len()
    }

    /// Whether there were no keys.
    pub fn is_empty(&self) -> bool {
        self.found.is_empty()
    }

    /// The result for the key at that place among the keys. Its error has a code and no message.
    ///
    /// # Panics
    ///
    /// If there were not so many keys.
    pub fn get(&self, index: usize) -> Result<Option<&[u8]>> {
        match &self.found[index] {
            Ok(true) => Ok(Some(&self.values[index * self.value_bytes..][..self.value_bytes])),
            Ok(false) => Ok(None),
            Err(error) => Err(error.clone()),
        }
    }

    /// The results for all keys.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = Result<Option<&[u8]>>> + '_ {
        (0..self.len()).map(move |index| self.get(index))
    }

    /// The results as values of their own.
    pub fn into_vec(self) -> Vec<Result<Option<Value>>> {
        let values = self.values.chunks_exact(self.value_bytes);
        self.found
            .into_iter()
            .zip(values)
            .map(|(found, value)| found.map(|there| there.then(|| Value::from(value))))
            .collect()
    }
}

impl fmt::Debug for Values {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.debug_struct("Values").field("found", &self.found).finish_non_exhaustive()
    }
}
