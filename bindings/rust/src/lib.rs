//! A key-value store for one kind of record: keys of 8 bytes, and values of one size.
//!
//! The engine is a library in C++. This crate has its C API as safe Rust.
//!
//! ```
//! use engine_race::Options;
//! # let dir = std::env::temp_dir().join(format!("er_lib_{}", std::process::id()));
//!
//! let store = Options::new().value_bytes(3072).open(&dir)?;
//! store.write(7, &[1; 3072])?;
//! store.write(b"8 bytes!", &[2; 3072])?;
//! assert_eq!(store.read(7)?.unwrap()[0], 1);
//! assert!(store.read(8)?.is_none());
//! for record in store.iter(0..100)? {
//!     let (key, value) = record?;
//!     assert_eq!((key, value[0]), (7, 1));
//! }
//! store.close()?;
//! # std::fs::remove_dir_all(&dir).unwrap();
//! # engine_race::Result::Ok(())
//! ```
//!
//! # Threads
//!
//! A [`Store`] and a [`Snapshot`] may be used by any number of threads at once. A [`Cursor`], an
//! [`Iter`], a [`Keys`] and a [`Batch`] may move between threads.
//!
//! # Closing
//!
//! Dropping a store closes it. Snapshots and iterators borrow their store, so they end before.
//! A store that is leaked stays open until the process ends. Leaked snapshots and iterators end
//! when their store closes.
//!
//! # Forks
//!
//! In a forked child every call of the parent's stores, snapshots and iterators fails with
//! [`Code::InvalidArgument`], or finds no record. Dropping them does nothing there.
//!
//! # Panics in closures
//!
//! Where a call runs a closure before it returns, a panic in the closure ends the call and goes on
//! behind it. In threads of the library, a panic of a closure ends with the closure.

#![warn(missing_docs)]
#![warn(missing_debug_implementations)]

mod async_read;
mod batch;
mod callbacks;
mod closing;
mod copies;
mod cursor;
mod error;
mod iter;
mod log;
mod options;
mod progress;
mod snapshot;
mod stats;
mod store;
pub mod sys;
mod values;
mod view;

pub use async_read::ReadFuture;
pub use batch::Batch;
pub use copies::{copy, restore, verify, verify_backup, BackupReport, Report};
pub use cursor::{Cursor, CursorOptions};
pub use error::{Code, Error, ManyError, Result};
pub use iter::{Iter, Keys};
pub use log::LogLevel;
pub use options::{IoBackend, Options, Reclaim, SyncMode};
pub use progress::with_progress;
pub use snapshot::Snapshot;
pub use stats::{BucketSpace, Latencies, Latency, Stats};
pub use store::Store;
pub use values::{Key, Value, Values, KEY_BYTES, VALUE_BYTES};

/// The version of the library, as "0.9.0", which may be newer than this crate.
///
/// ```
/// assert!(engine_race::version().starts_with("0."));
/// ```
pub fn version() -> &'static str {
    // SAFETY: a literal of the library.
    unsafe { error::static_text(sys::engine_race_version()) }
}

/// As `Box::new` does.
#[cold]
fn memory_is_refused() -> ! {
    std::alloc::handle_alloc_error(std::alloc::Layout::new::<usize>())
}

// Its program is compiled as a test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}
