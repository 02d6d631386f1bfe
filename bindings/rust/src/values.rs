//! Keys and values.

use std::fmt;
use std::mem::MaybeUninit;
use std::ops::{Deref, DerefMut};
use std::slice;

use crate::sys;

/// The size of a key, in bytes.
pub const KEY_BYTES: usize = sys::ENGINE_RACE_KEY_BYTES;
/// The size of a value, in bytes.
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

/// A value that was read: 4096 bytes on the heap.
///
/// ```
/// use engine_race::{Value, VALUE_BYTES};
///
/// let mut value = Value::zeroed();
/// value[0] = 7;
/// let array: &[u8; VALUE_BYTES] = &value;
/// assert_eq!(Value::from(array), value);
/// ```
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Value(Box<[u8; VALUE_BYTES]>);

impl Value {
    /// A value of zeros.
    pub fn zeroed() -> Value {
        // Not through the stack.
        let bytes = vec![0u8; VALUE_BYTES].into_boxed_slice();
        Value(bytes.try_into().expect("it has this size"))
    }

    /// The memory itself.
    pub fn into_boxed_array(self) -> Box<[u8; VALUE_BYTES]> {
        self.0
    }
}

impl Default for Value {
    fn default() -> Value {
        Value::zeroed()
    }
}

impl Deref for Value {
    type Target = [u8; VALUE_BYTES];
    fn deref(&self) -> &[u8; VALUE_BYTES] {
        &self.0
    }
}

impl DerefMut for Value {
    fn deref_mut(&mut self) -> &mut [u8; VALUE_BYTES] {
        &mut self.0
    }
}

impl AsRef<[u8]> for Value {
    fn as_ref(&self) -> &[u8] {
        &self.0[..]
    }
}

impl From<&[u8; VALUE_BYTES]> for Value {
    fn from(bytes: &[u8; VALUE_BYTES]) -> Value {
        let mut value = Room::new();
        value.bytes().write(*bytes);
        // SAFETY: it was written just now.
        unsafe { value.assume_filled() }
    }
}

impl From<Box<[u8; VALUE_BYTES]>> for Value {
    fn from(bytes: Box<[u8; VALUE_BYTES]>) -> Value {
        Value(bytes)
    }
}

/// Fails unless there are 4096 bytes.
impl TryFrom<&[u8]> for Value {
    type Error = std::array::TryFromSliceError;
    fn try_from(bytes: &[u8]) -> Result<Value, Self::Error> {
        <&[u8; VALUE_BYTES]>::try_from(bytes).map(Value::from)
    }
}

impl PartialEq<[u8; VALUE_BYTES]> for Value {
    fn eq(&self, other: &[u8; VALUE_BYTES]) -> bool {
        *self.0 == *other
    }
}

impl PartialEq<Value> for [u8; VALUE_BYTES] {
    fn eq(&self, other: &Value) -> bool {
        *self == *other.0
    }
}

/// The first 16 bytes.
impl fmt::Debug for Value {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(to, "Value({:02x?}...)", &self.0[..16])
    }
}

/// Memory for a value that a call fills.
pub(crate) struct Room(Box<MaybeUninit<[u8; VALUE_BYTES]>>);

impl Room {
    #[inline]
    pub(crate) fn new() -> Room {
        Room(Box::new(MaybeUninit::uninit()))
    }

    #[inline]
    pub(crate) fn bytes(&mut self) -> &mut MaybeUninit<[u8; VALUE_BYTES]> {
        &mut self.0
    }

    /// # Safety
    ///
    /// All of it has been written.
    #[inline]
    pub(crate) unsafe fn assume_filled(self) -> Value {
        Value(Box::from_raw(Box::into_raw(self.0).cast()))
    }
}

/// Views bytes as values, one after another. None if their number is not a multiple of 4096.
///
/// ```
/// let bytes = vec![7; 3 * engine_race::VALUE_BYTES];
/// assert_eq!(engine_race::as_values(&bytes).unwrap().len(), 3);
/// assert!(engine_race::as_values(&bytes[1..]).is_none());
/// ```
pub fn as_values(bytes: &[u8]) -> Option<&[[u8; VALUE_BYTES]]> {
    if bytes.len() % VALUE_BYTES != 0 {
        return None;
    }
    let count = bytes.len() / VALUE_BYTES;
    // SAFETY: the memory is that of the bytes, and arrays of bytes are aligned anywhere.
    Some(unsafe { slice::from_raw_parts(bytes.as_ptr().cast(), count) })
}

/// As [`as_values`], for a call that fills them.
///
/// ```
/// let mut bytes = [0; 2 * engine_race::VALUE_BYTES];
/// engine_race::as_values_mut(&mut bytes).unwrap()[1].fill(7);
/// assert_eq!(bytes[engine_race::VALUE_BYTES], 7);
/// ```
pub fn as_values_mut(bytes: &mut [u8]) -> Option<&mut [[u8; VALUE_BYTES]]> {
    if bytes.len() % VALUE_BYTES != 0 {
        return None;
    }
    let count = bytes.len() / VALUE_BYTES;
    // SAFETY: as above, and the borrow is exclusive.
    Some(unsafe { slice::from_raw_parts_mut(bytes.as_mut_ptr().cast(), count) })
}

/// The results of a read of many keys, in the order of the keys.
///
/// Its memory is one piece, whatever was found. [`Store::read_many`](crate::Store::read_many) has
/// an example.
#[derive(Clone)]
pub struct Values {
    pub(crate) values: Vec<[u8; VALUE_BYTES]>,
    pub(crate) found: Vec<crate::Result<bool>>,
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
    pub fn get(&self, index: usize) -> crate::Result<Option<&[u8; VALUE_BYTES]>> {
        match &self.found[index] {
            Ok(true) => Ok(Some(&self.values[index])),
            Ok(false) => Ok(None),
            Err(error) => Err(error.clone()),
        }
    }

    /// The results for all keys.
    pub fn iter(
        &self,
    ) -> impl ExactSizeIterator<Item = crate::Result<Option<&[u8; VALUE_BYTES]>>> + '_ {
        (0..self.len()).map(move |index| self.get(index))
    }

    /// The results as values of their own.
    pub fn into_vec(self) -> Vec<crate::Result<Option<Value>>> {
        let values = self.values.iter();
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
