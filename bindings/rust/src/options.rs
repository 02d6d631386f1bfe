//! Options of a store, by name and by typed setters.

use std::ffi::{CStr, CString};
use std::fmt;
use std::ops::RangeInclusive;
use std::os::raw::c_char;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::ptr::{self, NonNull};
use std::sync::Arc;

use crate::error::{check, static_text, Code, Error, Result};
use crate::log::{Log, LogLevel};
use crate::store::Store;
use crate::sys;

/// Options of a store, at first with the defaults.
///
/// All calls check the sizes of values, so `value_bytes` is 0 by default: any store may be opened.
///
/// `engine_race/base/options.h` of the sources describes each option. Those of the geometry count
/// for new stores alone.
///
/// ```
/// use engine_race::{Options, SyncMode};
/// # let dir = std::env::temp_dir().join(format!("er_options_{}", std::process::id()));
///
/// let store = Options::new()
///     .memory_budget_bytes(64 << 20)
///     .sync_mode(SyncMode::Group)
///     .set("index_idle_ms", "0")?
///     .open(&dir)?;
/// # drop(store);
/// # std::fs::remove_dir_all(&dir).unwrap();
/// # engine_race::Result::Ok(())
/// ```
pub struct Options {
    handle: NonNull<sys::engine_race_options>,
    log: Option<Arc<Log>>,
    // Of a typed setter. Opening a store answers it.
    failure: Option<Error>,
}

// SAFETY: the handle belongs to no thread. Calls that change it need `&mut`; the others only read
// memory. A log is Send and Sync.
unsafe impl Send for Options {}
unsafe impl Sync for Options {}

/// From when on an acknowledged write is durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum SyncMode {
    /// Power loss may take what was written since the last [`Store::sync`].
    None,
    /// Each write is flushed to the device, by itself, before it returns.
    EveryWrite,
    /// As `EveryWrite`, but writers that wait at one time share one flush.
    Group,
}

/// The back end that keeps many reads in flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum IoBackend {
    /// io_uring where a read through it works, else libaio, else psync.
    Auto,
    /// Blocking reads by a small pool of threads.
    Psync,
    /// Linux native asynchronous I/O.
    Libaio,
    /// io_uring, which containers often refuse.
    IoUring,
}

/// Whether a thread of the store gives the space of overwritten and deleted records back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Reclaim {
    /// Only [`Store::compact`] does.
    Off,
    /// A thread of the store does, beside all calls.
    Background,
}

macro_rules! numbers {
    ($($(#[$doc:meta])* $name:ident: $kind:ty;)*) => {$(
        $(#[$doc])*
        pub fn $name(&mut self, value: $kind) -> &mut Options {
            self.put(stringify!($name), &value.to_string())
        }
    )*};
}

impl Options {
    /// The defaults.
    pub fn new() -> Options {
        // SAFETY: takes nothing.
        let handle = unsafe { sys::engine_race_options_create() };
        match NonNull::new(handle) {
            Some(handle) => {
                let mut options = Options { handle, log: None, failure: None };
                options.value_bytes(0);
                options
            }
            None => crate::memory_is_refused(),
        }
    }

    /// The names of all options, in the order of `options.h`.
    pub fn names() -> impl Iterator<Item = &'static str> {
        // SAFETY: any index may be given; the names are literals of the library.
        let name = |index| unsafe { sys::engine_race_option_name(index) };
        (0..).map(name).take_while(|name| !name.is_null()).map(|name| unsafe { static_text(name) })
    }

    /// Sets an option from a text: "2147483648", "2g", "true", "io_uring". Paths are "/a:/b", in
    /// which `\:` is a colon and `\\` a backslash.
    ///
    /// # Errors
    ///
    /// [`Code::InvalidArgument`] for an unknown name, and for a text that does not parse. Opening a
    /// store checks the ranges of values.
    pub fn set(&mut self, name: &str, value: &str) -> Result<&mut Options> {
        self.set_text(name, value.as_bytes())?;
        Ok(self)
    }

    /// The text of an option's value.
    ///
    /// # Errors
    ///
    /// [`Code::InvalidArgument`] for an unknown name.
    pub fn get(&self, name: &str) -> Result<String> {
        Ok(String::from_utf8_lossy(self.get_text(name)?.as_bytes()).into_owned())
    }

    /// Opens the store in `directory`, which is made when missing.
    ///
    /// # Errors
    ///
    /// - [`Code::IoError`] when another opener holds the store, and when the system refuses a call.
    /// - [`Code::NotFound`] where there is no store and none may be made.
    /// - [`Code::InvalidArgument`] for options out of their ranges, and for a new store in a
    ///   directory with other files.
    /// - [`Code::Incomplete`] with `read_only` when a recovery fails.
    /// - [`Code::Corruption`], [`Code::NotSupported`] and [`Code::Full`].
    pub fn open(&self, directory: impl AsRef<Path>) -> Result<Store> {
        Store::open_with(self, directory.as_ref())
    }

    numbers! {
        /// Bytes of memory for everything; at least 16 MiB. By default a quarter of all that the
        /// process may use, and a sixteenth with `read_only`.
        memory_budget_bytes: u64;
        /// Bytes of memory for values that are read often, as part of the budget.
        hot_value_bytes: u64;
        /// Bytes of memory for the index, as part of the budget.
        index_memory_bytes: u64;
        /// The size of every value: 8 to 1048576. Of an existing store it must be its own. 0: that
        /// of an existing store, and [`VALUE_BYTES`](crate::VALUE_BYTES) for a new one.
        value_bytes: u32;
        /// Of a new store: stretches of neighbouring keys, a power of two from 1 to 65536.
        bucket_count: u32;
        /// Of a new store: key files, and as many value files; a power of two from 1 to 1024.
        file_count: u32;
        /// Reads and writes files through the kernel's page cache, which processes share.
        page_cache: bool;
        /// Threads that read many keys and asynchronously; 0: one for each CPU.
        worker_count: u32;
        /// Asynchronous reads that are pending at most. 0: chosen by the number of workers.
        async_read_limit: u32;
        /// At that limit [`Store::read_async`] waits; false: it fails with [`Code::Busy`].
        async_read_waits: bool;
        /// Opens the store for reading only, beside any number of such openings and no writer.
        read_only: bool;
        /// Reads a store beside its writer: see [`Store::refresh`].
        follow: bool;
        /// False: opening a directory without a store is [`Code::NotFound`].
        create_if_missing: bool;
        /// A new store may be made in a directory that holds other files.
        create_among_files: bool;
        /// Compares every value that is read with its checksum, as by default.
        verify_checksums: bool;
        /// Syncs when the store is closed.
        sync_on_close: bool;
        /// Measures how long calls take: see [`Store::latencies`].
        latency_stats: bool;
        /// The share of a bucket's slots, in percent, that reclaim leaves without live records.
        reclaim_dead_percent: u32;
        /// Bytes that background reclaim writes again in a second at most; 0: no limit.
        reclaim_bytes_per_second: u64;
    }

    /// From when on an acknowledged write is durable.
    pub fn sync_mode(&mut self, mode: SyncMode) -> &mut Options {
        let text = match mode {
            SyncMode::None => "none",
            SyncMode::EveryWrite => "every_write",
            SyncMode::Group => "group",
        };
        self.put("sync_mode", text)
    }

    /// The back end that keeps many reads in flight.
    pub fn io_backend(&mut self, backend: IoBackend) -> &mut Options {
        let text = match backend {
            IoBackend::Auto => "auto",
            IoBackend::Psync => "psync",
            IoBackend::Libaio => "libaio",
            IoBackend::IoUring => "io_uring",
        };
        self.put("io_backend", text)
    }

    /// Whether a thread of the store gives space back.
    pub fn reclaim(&mut self, reclaim: Reclaim) -> &mut Options {
        let text = match reclaim {
            Reclaim::Off => "off",
            Reclaim::Background => "background",
        };
        self.put("reclaim", text)
    }

    /// The keys that the store takes.
    pub fn key_range(&mut self, keys: RangeInclusive<u64>) -> &mut Options {
        self.put("key_range", &format!("{}-{}", keys.start(), keys.end()))
    }

    /// Where the values lie: directories, made when missing, or raw block devices.
    ///
    /// A path that has a byte 0 fails the opening.
    pub fn paths<P: AsRef<Path>>(&mut self, paths: impl IntoIterator<Item = P>) -> &mut Options {
        let mut text = Vec::new();
        for (index, path) in paths.into_iter().enumerate() {
            if index > 0 {
                text.push(b':');
            }
            for &byte in path.as_ref().as_os_str().as_bytes() {
                if byte == b':' || byte == b'\\' {
                    text.push(b'\\');
                }
                text.push(byte);
            }
        }
        self.put_text("paths", &text)
    }

    /// Calls `log` with each message of the stores that are opened with these options.
    ///
    /// Any thread may call it, also while the store holds locks: it must not use the store. A panic
    /// in it ends there. Without such a function nothing is logged.
    ///
    /// ```
    /// use std::sync::{Arc, Mutex};
    /// # let dir = std::env::temp_dir().join(format!("er_log_{}", std::process::id()));
    ///
    /// let lines = Arc::new(Mutex::new(Vec::new()));
    /// let kept = Arc::clone(&lines);
    /// let failed = engine_race::Options::new()
    ///     .create_if_missing(false)
    ///     .log(move |level, text| kept.lock().unwrap().push(format!("{:?} {}", level, text)))
    ///     .open(&dir);
    /// assert!(failed.is_err());
    /// assert!(lines.lock().unwrap()[0].starts_with("Error "));
    /// ```
    pub fn log(&mut self, log: impl Fn(LogLevel, &str) + Send + Sync + 'static) -> &mut Options {
        let log = Arc::new(Log(Box::new(log)));
        match self.set_log(&log) {
            Ok(()) => self.log = Some(log),
            Err(error) => self.fail(error),
        }
        self
    }

    fn set_log(&mut self, log: &Arc<Log>) -> Result<()> {
        let argument = Arc::as_ptr(log) as *mut _;
        // SAFETY: these options and the stores that are opened with them keep the function. It may
        // be called by any thread.
        let code = unsafe {
            sys::engine_race_options_set_log(self.handle.as_ptr(), Some(Log::write), argument)
        };
        check(code)
    }

    pub(crate) fn shared_log(&self) -> Option<Arc<Log>> {
        self.log.clone()
    }

    /// Fails if a typed setter has failed.
    pub(crate) fn checked(&self) -> Result<*const sys::engine_race_options> {
        match &self.failure {
            Some(error) => Err(error.clone()),
            None => Ok(self.handle.as_ptr()),
        }
    }

    fn put(&mut self, name: &str, value: &str) -> &mut Options {
        self.put_text(name, value.as_bytes())
    }

    fn put_text(&mut self, name: &str, value: &[u8]) -> &mut Options {
        if let Err(error) = self.set_text(name, value) {
            self.fail(error);
        }
        self
    }

    fn fail(&mut self, error: Error) {
        self.failure.get_or_insert(error);
    }

    fn set_text(&mut self, name: &str, value: &[u8]) -> Result<()> {
        let (name, value) = (c_text(name.as_bytes())?, c_text(value)?);
        // SAFETY: texts with a 0 at their ends.
        check(unsafe {
            sys::engine_race_options_set(self.handle.as_ptr(), name.as_ptr(), value.as_ptr())
        })
    }

    fn get_text(&self, name: &str) -> Result<CString> {
        let name = c_text(name.as_bytes())?;
        let mut text = ptr::null_mut();
        // SAFETY: as above; the answer is a text of this caller.
        unsafe {
            let handle = self.handle.as_ptr();
            check(sys::engine_race_options_get(handle, name.as_ptr(), &mut text))?;
            Ok(taken_text(text))
        }
    }
}

impl Default for Options {
    fn default() -> Options {
        Options::new()
    }
}

impl Clone for Options {
    fn clone(&self) -> Options {
        let mut copy = Options::new();
        copy.failure = self.failure.clone();
        for name in Options::names() {
            match self.get_text(name) {
                Ok(value) => drop(copy.put_text(name, value.as_bytes())),
                Err(error) => copy.fail(error),
            }
        }
        if let Some(log) = &self.log {
            match copy.set_log(log) {
                Ok(()) => copy.log = Some(Arc::clone(log)),
                Err(error) => copy.fail(error),
            }
        }
        copy
    }
}

impl Drop for Options {
    fn drop(&mut self) {
        // SAFETY: nothing else has the handle. Stores have copied what it holds.
        unsafe { sys::engine_race_options_destroy(self.handle.as_ptr()) };
    }
}

/// The options with their values, as texts.
impl fmt::Debug for Options {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        let values = Options::names().map(|name| (name, self.get(name).unwrap_or_default()));
        to.debug_map().entries(values).finish()
    }
}

pub(crate) fn c_text(bytes: &[u8]) -> Result<CString> {
    CString::new(bytes).map_err(|_| Error::new(Code::InvalidArgument, "a text has a byte 0"))
}

pub(crate) fn c_path(path: &Path) -> Result<CString> {
    c_text(path.as_os_str().as_bytes())
}

/// Copies a text and frees it.
///
/// # Safety
///
/// The library has given it for `engine_race_free`.
pub(crate) unsafe fn taken_text(text: *mut c_char) -> CString {
    let copy = CStr::from_ptr(text).to_owned();
    sys::engine_race_free(text.cast());
    copy
}
