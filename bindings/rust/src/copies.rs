//! Copies: checkpoints and backups of open stores; closed stores that are copied or verified.

use std::mem;
use std::os::raw::c_int;
use std::path::Path;
use std::ptr;

use crate::error::{check, Result};
use crate::options::{c_path, Options};
use crate::store::Store;
use crate::sys;

/// The findings of a verification.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Report {
    /// Records that were read, overwritten ones and deletions included.
    pub record_count: u64,
    /// Damaged ones.
    pub bad_count: u64,
    /// Those that the next opening cuts off, because a power loss has taken them.
    pub lost_tail_count: u64,
    /// Records of the index on disk that were compared.
    pub index_record_count: u64,
    /// Buckets whose index must be built anew.
    pub index_unusable_bucket_count: u64,
}

/// The contents of a backup.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct BackupReport {
    /// Live records at the moment of the backup.
    pub record_count: u64,
    /// Those whose values the backup holds itself.
    pub value_count: u64,
    /// Backups that a restore needs: 1 for a full one.
    pub chain_length: u64,
    /// Size of the backup's own files, in bytes.
    pub size_bytes: u64,
}

/// Gives `call` a report to fill. Its answer comes with the report.
fn with_report(call: impl FnOnce(*mut sys::engine_race_report) -> c_int) -> Result<Report> {
    // SAFETY: numbers, for which zeros are fine.
    let mut found: sys::engine_race_report = unsafe { mem::zeroed() };
    found.struct_bytes = mem::size_of_val(&found);
    let answer = check(call(&mut found));
    let report = Report {
        record_count: found.record_count,
        bad_count: found.bad_count,
        lost_tail_count: found.lost_tail_count,
        index_record_count: found.index_record_count,
        index_unusable_bucket_count: found.index_unusable_bucket_count,
    };
    answer.map(|()| report).map_err(|error| error.with_report(report))
}

fn with_backup_report(
    call: impl FnOnce(*mut sys::engine_race_backup_report) -> c_int,
) -> Result<BackupReport> {
    // SAFETY: as above.
    let mut found: sys::engine_race_backup_report = unsafe { mem::zeroed() };
    found.struct_bytes = mem::size_of_val(&found);
    check(call(&mut found))?;
    Ok(BackupReport {
        record_count: found.record_count,
        value_count: found.value_count,
        chain_length: found.chain_length,
        size_bytes: found.size_bytes,
    })
}

impl Store {
    /// Makes a store of its own in a directory that is missing or empty: the latest state at one
    /// moment of the call. Other calls go on meanwhile.
    ///
    /// # Errors
    ///
    /// [`Code::InvalidArgument`](crate::Code::InvalidArgument),
    /// [`Code::Full`](crate::Code::Full), [`Code::Corruption`](crate::Code::Corruption), and
    /// [`Code::IoError`](crate::Code::IoError), also when writing to this store has ended.
    pub fn checkpoint(&self, directory: impl AsRef<Path>) -> Result<()> {
        let directory = c_path(directory.as_ref())?;
        // SAFETY: the handle lives, and the text ends with a 0.
        check(unsafe { sys::engine_race_checkpoint(self.handle(), directory.as_ptr()) })
    }

    /// Writes a full backup into a directory that is missing or empty. Other calls go on meanwhile.
    ///
    /// ```
    /// # let dir = std::env::temp_dir().join(format!("er_backup_{}", std::process::id()));
    /// # let store = engine_race::Store::open(dir.join("store"))?;
    /// store.write(7, &[1; 4096])?;
    /// store.backup(dir.join("full"))?;
    /// store.write(8, &[2; 4096])?;
    /// let report = store.backup_since(dir.join("monday"), dir.join("full"))?;
    /// assert_eq!((report.record_count, report.value_count), (2, 1));
    /// let options = engine_race::Options::new();
    /// engine_race::restore(dir.join("monday"), dir.join("restored"), &options)?;
    /// # drop(store);
    /// # std::fs::remove_dir_all(&dir).unwrap();
    /// # engine_race::Result::Ok(())
    /// ```
    ///
    /// # Errors
    ///
    /// Those of [`Store::checkpoint`].
    pub fn backup(&self, directory: impl AsRef<Path>) -> Result<BackupReport> {
        self.back_up(directory.as_ref(), None)
    }

    /// Writes an incremental backup: what changed since the backup in `since`.
    ///
    /// # Errors
    ///
    /// Those of [`Store::checkpoint`]. [`Code::InvalidArgument`](crate::Code::InvalidArgument) also
    /// where the store cannot go on from `since`.
    pub fn backup_since(
        &self,
        directory: impl AsRef<Path>,
        since: impl AsRef<Path>,
    ) -> Result<BackupReport> {
        self.back_up(directory.as_ref(), Some(since.as_ref()))
    }

    fn back_up(&self, directory: &Path, since: Option<&Path>) -> Result<BackupReport> {
        let directory = c_path(directory)?;
        let since = since.map(c_path).transpose()?;
        let since_at = since.as_ref().map_or(ptr::null(), |since| since.as_ptr());
        // SAFETY: the handle and the texts live.
        with_backup_report(|report| unsafe {
            sys::engine_race_backup(self.handle(), directory.as_ptr(), since_at, report)
        })
    }
}

/// Reads every record of a closed store and compares it with its checksums.
///
/// # Errors
///
/// [`Code::Corruption`](crate::Code::Corruption) when something is bad:
/// [`Error::report`](crate::Error::report) has the counts.
/// [`Code::NotFound`](crate::Code::NotFound) and [`Code::IoError`](crate::Code::IoError).
pub fn verify(directory: impl AsRef<Path>, options: &Options) -> Result<Report> {
    let directory = c_path(directory.as_ref())?;
    let options = options.checked()?;
    // SAFETY: the text and the options live.
    with_report(|report| unsafe { sys::engine_race_verify(directory.as_ptr(), options, report) })
}

/// Copies a closed store into a directory that is missing or empty, and verifies it on the way.
///
/// # Errors
///
/// Those of [`verify`], [`Code::InvalidArgument`](crate::Code::InvalidArgument) and
/// [`Code::Full`](crate::Code::Full).
pub fn copy(from: impl AsRef<Path>, to: impl AsRef<Path>, options: &Options) -> Result<Report> {
    let (from, to) = (c_path(from.as_ref())?, c_path(to.as_ref())?);
    let options = options.checked()?;
    // SAFETY: the texts and the options live.
    with_report(|report| unsafe {
        sys::engine_race_copy(from.as_ptr(), to.as_ptr(), options, report)
    })
}

/// Makes a store of a backup and its parents, in a directory that is missing or empty. It compares
/// all that it reads with its checksums.
///
/// # Errors
///
/// [`Code::Corruption`](crate::Code::Corruption) for a damaged or unfinished backup,
/// [`Code::InvalidArgument`](crate::Code::InvalidArgument) for a missing or wrong parent, and
/// [`Code::NotFound`](crate::Code::NotFound).
pub fn restore(
    backup: impl AsRef<Path>,
    to: impl AsRef<Path>,
    options: &Options,
) -> Result<BackupReport> {
    let (backup, to) = (c_path(backup.as_ref())?, c_path(to.as_ref())?);
    let options = options.checked()?;
    // SAFETY: the texts and the options live.
    with_backup_report(|report| unsafe {
        sys::engine_race_restore(backup.as_ptr(), to.as_ptr(), options, report)
    })
}

/// Reads all that [`restore`] would read.
///
/// # Errors
///
/// Those of [`restore`].
pub fn verify_backup(backup: impl AsRef<Path>, options: &Options) -> Result<BackupReport> {
    let backup = c_path(backup.as_ref())?;
    let options = options.checked()?;
    // SAFETY: the text and the options live.
    with_backup_report(|report| unsafe {
        sys::engine_race_verify_backup(backup.as_ptr(), options, report)
    })
}
