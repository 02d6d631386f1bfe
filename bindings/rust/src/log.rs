//! The log of a store, as a closure of the program.

use std::ffi::CStr;
use std::os::raw::{c_char, c_int, c_void};

use crate::callbacks::{contain, Awaited};

/// How much a message of the log matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum LogLevel {
    /// Nothing is wrong.
    Info,
    /// The store does without something, or goes another way.
    Warning,
    /// A call has failed.
    Error,
}

/// The closure. Its address is the argument that the library has.
pub(crate) struct Log(pub(crate) Box<LogFn>);

type LogFn = dyn Fn(LogLevel, &str) + Send + Sync;

impl Log {
    /// # Safety
    ///
    /// `argument` is a `Log` that lives, and `message` a text.
    pub(crate) unsafe extern "C" fn write(
        argument: *mut c_void,
        level: c_int,
        message: *const c_char,
    ) {
        let _awaited = Awaited::begin();
        contain(|| {
            let log = &*argument.cast::<Log>();
            let level = match level {
                0 => LogLevel::Info,
                1 => LogLevel::Warning,
                _ => LogLevel::Error,
            };
            (log.0)(level, &CStr::from_ptr(message).to_string_lossy());
        });
    }
}
