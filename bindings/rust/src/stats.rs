//! Counters, latencies and other figures of an open store.

use std::mem;
use std::ptr;
use std::time::Duration;

use crate::error::{check, static_text, Result};
use crate::options::{c_text, taken_text};
use crate::store::Store;
use crate::sys;

/// The counters of a store. `engine_race/store_stats.h` of the sources has their meanings.
///
/// ```
/// # let dir = std::env::temp_dir().join(format!("er_stats_{}", std::process::id()));
/// # let store = engine_race::Store::open(&dir)?;
/// store.write(7, &[1; 4096])?;
/// assert_eq!(store.stats()?.get("record_count"), Some(1));
/// # drop(store);
/// # std::fs::remove_dir_all(&dir).unwrap();
/// # engine_race::Result::Ok(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stats(Vec<(&'static str, u64)>);

impl Stats {
    /// The counter with that name. None: this version of the library has none.
    pub fn get(&self, name: &str) -> Option<u64> {
        self.iter().find(|(known, _)| *known == name).map(|(_, value)| value)
    }

    /// All counters with their names.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&'static str, u64)> + '_ {
        self.0.iter().copied()
    }
}

/// Space on disk that the values of one bucket take, as far as known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct BucketSpace {
    /// Of live records.
    pub live_bytes: u64,
    /// Of overwritten and deleted records.
    pub dead_bytes: u64,
}

/// How long the calls or steps of one kind took. Percentiles are right to within 1/32.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Latency {
    /// How many there were.
    pub count: u64,
    /// Their mean.
    pub mean: Duration,
    /// The median.
    pub p50: Duration,
    /// 95 % took at most this.
    pub p95: Duration,
    /// 99 % took at most this.
    pub p99: Duration,
    /// 99.9 % took at most this.
    pub p999: Duration,
    /// The longest.
    pub max: Duration,
}

impl Latency {
    fn of(found: &sys::engine_race_latency) -> Latency {
        Latency {
            count: found.count,
            mean: Duration::from_nanos(found.mean_ns),
            p50: Duration::from_nanos(found.p50_ns),
            p95: Duration::from_nanos(found.p95_ns),
            p99: Duration::from_nanos(found.p99_ns),
            p999: Duration::from_nanos(found.p999_ns),
            max: Duration::from_nanos(found.max_ns),
        }
    }
}

/// Latencies since the store was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Latencies {
    /// Reads of one key.
    pub read: Latency,
    /// Whole calls that read many.
    pub multi_read: Latency,
    /// Asynchronous reads, until their function is called.
    pub async_read: Latency,
    /// Writes and deletions; each record of many.
    pub write: Latency,
    /// Whole calls that visit a range, with their visits.
    pub range: Latency,
    /// Calls of [`Store::sync`].
    pub sync: Latency,
    /// Writes of a full group from staging to its log.
    pub group_write: Latency,
    /// Flushes of a log file or of the journal to the device.
    pub flush: Latency,
}

impl Store {
    /// The counters of now.
    ///
    /// # Errors
    ///
    /// [`Code::InvalidArgument`](crate::Code::InvalidArgument) in a forked child.
    pub fn stats(&self) -> Result<Stats> {
        // SAFETY: any index may be given.
        let name = |index| unsafe { sys::engine_race_stat_name(index) };
        let count = (0..).take_while(|&index| !name(index).is_null()).count();
        let mut values = vec![0; count];
        let mut given = 0;
        // SAFETY: the handle lives, and there is room for so many.
        check(unsafe {
            sys::engine_race_stats(self.handle(), values.as_mut_ptr(), count, &mut given)
        })?;
        let values = values.into_iter().take(given).enumerate();
        // SAFETY: the names are literals of the library.
        Ok(Stats(values.map(|(at, value)| (unsafe { static_text(name(at)) }, value)).collect()))
    }

    /// Latencies since the store was opened. None without the option `latency_stats`.
    ///
    /// # Errors
    ///
    /// Those of [`Store::stats`].
    pub fn latencies(&self) -> Result<Option<Latencies>> {
        // SAFETY: numbers, for which zeros are fine.
        let mut found: sys::engine_race_latencies = unsafe { mem::zeroed() };
        found.struct_bytes = mem::size_of_val(&found);
        // SAFETY: the handle lives, and the size is right.
        check(unsafe { sys::engine_race_latency_stats(self.handle(), &mut found) })?;
        let latencies = Latencies {
            read: Latency::of(&found.read),
            multi_read: Latency::of(&found.multi_read),
            async_read: Latency::of(&found.async_read),
            write: Latency::of(&found.write),
            range: Latency::of(&found.range),
            sync: Latency::of(&found.sync),
            group_write: Latency::of(&found.group_write),
            flush: Latency::of(&found.flush),
        };
        Ok((found.measured != 0).then_some(latencies))
    }

    /// A text about the store. Names: "io_backend", "write_backend", "key_range", "stats" and
    /// "prometheus".
    ///
    /// # Errors
    ///
    /// [`Code::InvalidArgument`](crate::Code::InvalidArgument) for an unknown name.
    pub fn property(&self, name: &str) -> Result<String> {
        let name = c_text(name.as_bytes())?;
        let mut text = ptr::null_mut();
        // SAFETY: the handle lives; the answer is a text of this caller.
        unsafe {
            check(sys::engine_race_property(self.handle(), name.as_ptr(), &mut text))?;
            Ok(taken_text(text).to_string_lossy().into_owned())
        }
    }

    /// The space of all buckets, in order of key.
    ///
    /// # Errors
    ///
    /// Those of [`Store::read`].
    pub fn bucket_space(&self) -> Result<Vec<BucketSpace>> {
        let mut room = 1024;
        loop {
            let (mut live, mut dead, mut given) = (vec![0; room], vec![0; room], 0);
            // SAFETY: the handle lives, and both have room for so many.
            check(unsafe {
                let (live, dead) = (live.as_mut_ptr(), dead.as_mut_ptr());
                sys::engine_race_bucket_space(self.handle(), live, dead, room, &mut given)
            })?;
            if given < room {
                let both = live.into_iter().zip(dead).take(given);
                let space = |(live_bytes, dead_bytes)| BucketSpace { live_bytes, dead_bytes };
                return Ok(both.map(space).collect());
            }
            room *= 2;
        }
    }
}
