//! Errors: a code, a message, and what the system refused.

use std::ffi::{CStr, OsStr};
use std::fmt;
use std::io;
use std::os::raw::{c_char, c_int};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use crate::copies::Report;
use crate::sys;

/// The result of a call of the engine.
pub type Result<T> = std::result::Result<T, Error>;

/// The kind of a failure. Its numbers are those of the C API.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Code {
    /// There is no store or backup there. Reads answer `Ok(None)` or `Ok(false)` instead.
    NotFound,
    /// Bytes on disk are damaged.
    Corruption,
    /// The store has a format of another version, or the call an option of a newer library.
    NotSupported,
    /// An argument or option is wrong. Also: the store belongs to the parent of a forked process,
    /// or it was opened for reading only and the call writes.
    InvalidArgument,
    /// The system refused a read or a write, or another opener holds the store.
    IoError,
    /// A progress function has cancelled the call, or a recovery has failed.
    Incomplete,
    /// A time limit has passed.
    TimedOut,
    /// The disk or a bucket is full.
    Full,
    /// The system refused memory.
    OutOfMemory,
    /// As many asynchronous reads are pending as `async_read_limit` allows.
    Busy,
    /// A number that only a newer library knows.
    Unknown(i32),
}

impl Code {
    /// The code with a number of the C API.
    ///
    /// ```
    /// assert_eq!(engine_race::Code::from_number(8), engine_race::Code::Full);
    /// ```
    pub fn from_number(number: i32) -> Code {
        match number {
            sys::ENGINE_RACE_NOT_FOUND => Code::NotFound,
            sys::ENGINE_RACE_CORRUPTION => Code::Corruption,
            sys::ENGINE_RACE_NOT_SUPPORTED => Code::NotSupported,
            sys::ENGINE_RACE_INVALID_ARGUMENT => Code::InvalidArgument,
            sys::ENGINE_RACE_IO_ERROR => Code::IoError,
            sys::ENGINE_RACE_INCOMPLETE => Code::Incomplete,
            sys::ENGINE_RACE_TIMED_OUT => Code::TimedOut,
            sys::ENGINE_RACE_FULL => Code::Full,
            sys::ENGINE_RACE_OUT_OF_MEMORY => Code::OutOfMemory,
            sys::ENGINE_RACE_BUSY => Code::Busy,
            other => Code::Unknown(other),
        }
    }

    /// Its number in the C API.
    pub fn number(self) -> i32 {
        match self {
            Code::NotFound => sys::ENGINE_RACE_NOT_FOUND,
            Code::Corruption => sys::ENGINE_RACE_CORRUPTION,
            Code::NotSupported => sys::ENGINE_RACE_NOT_SUPPORTED,
            Code::InvalidArgument => sys::ENGINE_RACE_INVALID_ARGUMENT,
            Code::IoError => sys::ENGINE_RACE_IO_ERROR,
            Code::Incomplete => sys::ENGINE_RACE_INCOMPLETE,
            Code::TimedOut => sys::ENGINE_RACE_TIMED_OUT,
            Code::Full => sys::ENGINE_RACE_FULL,
            Code::OutOfMemory => sys::ENGINE_RACE_OUT_OF_MEMORY,
            Code::Busy => sys::ENGINE_RACE_BUSY,
            Code::Unknown(number) => number,
        }
    }
}

/// As the engine writes it: `kFull`.
impl fmt::Display for Code {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        // SAFETY: any number may be given; the answer is a literal of the library.
        to.write_str(unsafe { static_text(sys::engine_race_code_name(self.number())) })
    }
}

/// Why a call has failed.
///
/// ```
/// use engine_race::{Code, Options};
/// # let dir = std::env::temp_dir().join(format!("er_error_{}", std::process::id()));
///
/// let error = Options::new().create_if_missing(false).open(&dir).unwrap_err();
/// assert_eq!(error.code(), Code::NotFound);
/// assert!(error.to_string().starts_with("kNotFound: "));
/// assert_eq!(error.path(), Some(dir.as_path()));
/// ```
#[derive(Clone)]
pub struct Error(Box<Details>);

#[derive(Clone)]
struct Details {
    code: Code,
    message: String,
    errno: i32,
    path: Option<PathBuf>,
    report: Option<Report>,
}

impl Error {
    /// The kind of the failure.
    pub fn code(&self) -> Code {
        self.0.code
    }

    /// One line about it. Empty where there is no more to say than the code.
    pub fn message(&self) -> &str {
        &self.0.message
    }

    /// The errno of the system call behind it, as `ENOSPC`; none where no such call has failed.
    pub fn raw_os_error(&self) -> Option<i32> {
        match self.0.errno {
            0 => None,
            errno => Some(errno),
        }
    }

    /// The file or directory that it is about. Absolute when an open file has failed, else as the
    /// program gave it.
    pub fn path(&self) -> Option<&Path> {
        self.0.path.as_deref()
    }

    /// How far [`verify`](crate::verify) and [`copy`](crate::copy) had come. None for other calls.
    pub fn report(&self) -> Option<&Report> {
        self.0.report.as_ref()
    }

    pub(crate) fn with_report(mut self, report: Report) -> Error {
        self.0.report = Some(report);
        self
    }

    pub(crate) fn new(code: Code, message: impl Into<String>) -> Error {
        let message = message.into();
        Error(Box::new(Details { code, message, errno: 0, path: None, report: None }))
    }

    /// Of this thread's last call, which has answered `code`.
    #[cold]
    pub(crate) fn last(code: c_int) -> Error {
        // SAFETY: both texts are good until this thread's next failure, and are copied here.
        unsafe {
            let message = CStr::from_ptr(sys::engine_race_error_message());
            let path = CStr::from_ptr(sys::engine_race_error_path());
            let path = match path.to_bytes() {
                [] => None,
                bytes => Some(PathBuf::from(OsStr::from_bytes(bytes))),
            };
            Error(Box::new(Details {
                code: Code::from_number(code),
                message: message.to_string_lossy().into_owned(),
                errno: sys::engine_race_error_number(),
                path,
                report: None,
            }))
        }
    }

    /// Of one key of many: the engine keeps no message for it.
    #[cold]
    pub(crate) fn of_key(code: c_int) -> Error {
        Error::new(Code::from_number(code), "")
    }
}

impl fmt::Display for Error {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.message.as_str() {
            "" => write!(to, "{}", self.0.code),
            message => write!(to, "{}: {}", self.0.code, message),
        }
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut fields = to.debug_struct("Error");
        fields.field("code", &self.0.code).field("message", &self.0.message);
        fields.field("errno", &self.0.errno).field("path", &self.0.path).finish()
    }
}

impl std::error::Error for Error {}

/// The error is kept as the source. Its kind is that of the errno, or comes from the code.
impl From<Error> for io::Error {
    fn from(error: Error) -> io::Error {
        let kind = match (error.raw_os_error(), error.code()) {
            (Some(errno), _) => io::Error::from_raw_os_error(errno).kind(),
            (None, Code::NotFound) => io::ErrorKind::NotFound,
            (None, Code::Corruption) => io::ErrorKind::InvalidData,
            (None, Code::NotSupported) => io::ErrorKind::Unsupported,
            (None, Code::InvalidArgument) => io::ErrorKind::InvalidInput,
            (None, Code::TimedOut) => io::ErrorKind::TimedOut,
            (None, Code::OutOfMemory) => io::ErrorKind::OutOfMemory,
            (None, Code::Busy) => io::ErrorKind::WouldBlock,
            _ => io::ErrorKind::Other,
        };
        io::Error::new(kind, error)
    }
}

/// Why a call for many records has ended before it was done.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ManyError {
    /// The first failure.
    pub error: Error,
    /// How many records the call had done before it.
    pub done_count: usize,
}

impl fmt::Display for ManyError {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(to, "after {} records: {}", self.done_count, self.error)
    }
}

impl std::error::Error for ManyError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.error)
    }
}

impl From<ManyError> for Error {
    fn from(many: ManyError) -> Error {
        many.error
    }
}

/// The result of a call of this thread that has just answered `code`.
#[inline]
pub(crate) fn check(code: c_int) -> Result<()> {
    match code {
        sys::ENGINE_RACE_OK => Ok(()),
        _ => Err(Error::last(code)),
    }
}

/// As `check`, of a read: whether the key is there.
#[inline]
pub(crate) fn found(code: c_int) -> Result<bool> {
    match code {
        sys::ENGINE_RACE_OK => Ok(true),
        sys::ENGINE_RACE_NOT_FOUND => Ok(false),
        _ => Err(Error::last(code)),
    }
}

/// As `check`, of a call for many records.
pub(crate) fn check_many(code: c_int, done_count: usize) -> std::result::Result<(), ManyError> {
    check(code).map_err(|error| ManyError { error, done_count })
}

/// A literal of the library, which is never unloaded.
///
/// # Safety
///
/// `text` is such a literal, and not null.
pub(crate) unsafe fn static_text(text: *const c_char) -> &'static str {
    // The names of the engine are ASCII.
    CStr::from_ptr(text).to_str().unwrap_or("")
}
