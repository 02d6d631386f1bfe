//! The C API as it is. `include/engine_race_c.h` describes every name of this module.
//!
//! Programs need it only for the log queue, which has no safe type here:
//! [`Options::log`](crate::Options::log) takes a closure instead.

#![allow(non_camel_case_types, missing_docs)]

use std::os::raw::{c_char, c_int, c_void};

pub const ENGINE_RACE_VERSION_MAJOR: c_int = 0;
pub const ENGINE_RACE_VERSION_MINOR: c_int = 9;
pub const ENGINE_RACE_VERSION_PATCH: c_int = 0;

pub const ENGINE_RACE_KEY_BYTES: usize = 8;
pub const ENGINE_RACE_VALUE_BYTES: usize = 4096;
pub const ENGINE_RACE_MIN_VALUE_BYTES: u32 = 8;
pub const ENGINE_RACE_MAX_VALUE_BYTES: u32 = 1048576;
pub const ENGINE_RACE_LOG_TEXT_BYTES: usize = 1024;

pub const ENGINE_RACE_OK: c_int = 0;
pub const ENGINE_RACE_NOT_FOUND: c_int = 1;
pub const ENGINE_RACE_CORRUPTION: c_int = 2;
pub const ENGINE_RACE_NOT_SUPPORTED: c_int = 3;
pub const ENGINE_RACE_INVALID_ARGUMENT: c_int = 4;
pub const ENGINE_RACE_IO_ERROR: c_int = 5;
pub const ENGINE_RACE_INCOMPLETE: c_int = 6;
pub const ENGINE_RACE_TIMED_OUT: c_int = 7;
pub const ENGINE_RACE_FULL: c_int = 8;
pub const ENGINE_RACE_OUT_OF_MEMORY: c_int = 9;
pub const ENGINE_RACE_BUSY: c_int = 10;

/// Types of handles: programs have pointers to them alone.
macro_rules! handles {
    ($($name:ident)*) => {$(
        #[repr(C)]
        #[derive(Debug)]
        pub struct $name {
            _bytes: [u8; 0],
            _marker: std::marker::PhantomData<(*mut u8, std::marker::PhantomPinned)>,
        }
    )*};
}
handles! {
    engine_race_store engine_race_options engine_race_log_queue engine_race_batch
    engine_race_snapshot engine_race_iterator
}

pub type engine_race_progress_fn =
    Option<unsafe extern "C" fn(argument: *mut c_void, done_count: u64, most_count: u64) -> c_int>;
pub type engine_race_log_fn =
    Option<unsafe extern "C" fn(argument: *mut c_void, level: c_int, message: *const c_char)>;
pub type engine_race_done_fn = Option<unsafe extern "C" fn(argument: *mut c_void, code: c_int)>;
pub type engine_race_visit_fn =
    Option<unsafe extern "C" fn(argument: *mut c_void, key: u64, value: *const c_void) -> c_int>;

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct engine_race_log_message {
    pub struct_bytes: usize,
    pub level: u64,
    pub time_ns: u64,
    pub text: [c_char; ENGINE_RACE_LOG_TEXT_BYTES],
}

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct engine_race_backup_report {
    pub struct_bytes: usize,
    pub record_count: u64,
    pub value_count: u64,
    pub chain_length: u64,
    pub size_bytes: u64,
}

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct engine_race_iterator_options {
    pub struct_bytes: usize,
    pub snapshot: *const engine_race_snapshot,
    pub lower: *const u64,
    pub upper: *const u64,
    pub prefetch_records: u64,
    pub refresh_every_steps: u64,
}

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct engine_race_latency {
    pub count: u64,
    pub mean_ns: u64,
    pub p50_ns: u64,
    pub p95_ns: u64,
    pub p99_ns: u64,
    pub p999_ns: u64,
    pub max_ns: u64,
}

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct engine_race_latencies {
    pub struct_bytes: usize,
    pub measured: u64,
    pub read: engine_race_latency,
    pub multi_read: engine_race_latency,
    pub async_read: engine_race_latency,
    pub write: engine_race_latency,
    pub range: engine_race_latency,
    pub sync: engine_race_latency,
    pub group_write: engine_race_latency,
    pub flush: engine_race_latency,
}

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct engine_race_report {
    pub struct_bytes: usize,
    pub record_count: u64,
    pub bad_count: u64,
    pub lost_tail_count: u64,
    pub index_record_count: u64,
    pub index_unusable_bucket_count: u64,
}

#[rustfmt::skip]
extern "C" {
    pub fn engine_race_version() -> *const c_char;
    pub fn engine_race_code_name(code: c_int) -> *const c_char;
    pub fn engine_race_error_message() -> *const c_char;
    pub fn engine_race_error_number() -> c_int;
    pub fn engine_race_error_path() -> *const c_char;
    pub fn engine_race_free(memory: *mut c_void);
    pub fn engine_race_set_progress(progress: engine_race_progress_fn, argument: *mut c_void);
    pub fn engine_race_key(key_bytes: *const c_void) -> u64;
    pub fn engine_race_key_bytes(key: u64, key_bytes: *mut c_void);
    pub fn engine_race_options_create() -> *mut engine_race_options;
    pub fn engine_race_options_destroy(options: *mut engine_race_options);
    pub fn engine_race_option_name(index: usize) -> *const c_char;
    pub fn engine_race_options_set(options: *mut engine_race_options, name: *const c_char,
                                   value: *const c_char) -> c_int;
    pub fn engine_race_options_get(options: *const engine_race_options, name: *const c_char,
                                   value: *mut *mut c_char) -> c_int;
    pub fn engine_race_options_set_log(options: *mut engine_race_options, log: engine_race_log_fn,
                                       argument: *mut c_void) -> c_int;
    pub fn engine_race_log_queue_create(max_count: usize,
                                        queue: *mut *mut engine_race_log_queue) -> c_int;
    pub fn engine_race_log_queue_destroy(queue: *mut engine_race_log_queue);
    pub fn engine_race_options_set_log_queue(options: *mut engine_race_options,
                                             queue: *mut engine_race_log_queue) -> c_int;
    pub fn engine_race_log_queue_waiting(queue: *const engine_race_log_queue) -> *const u32;
    pub fn engine_race_log_queue_take(queue: *mut engine_race_log_queue,
                                      message: *mut engine_race_log_message) -> c_int;
    pub fn engine_race_open(directory: *const c_char, options: *const engine_race_options,
                            store: *mut *mut engine_race_store) -> c_int;
    pub fn engine_race_value_bytes(store: *const engine_race_store) -> u32;
    pub fn engine_race_close(store: *mut engine_race_store) -> c_int;
    pub fn engine_race_write(store: *mut engine_race_store, key: u64,
                             value: *const c_void) -> c_int;
    pub fn engine_race_delete(store: *mut engine_race_store, key: u64) -> c_int;
    pub fn engine_race_read(store: *mut engine_race_store, key: u64, value: *mut c_void) -> c_int;
    pub fn engine_race_write_many(store: *mut engine_race_store, count: usize, keys: *const u64,
                                  values: *const c_void, written: *mut usize) -> c_int;
    pub fn engine_race_delete_many(store: *mut engine_race_store, count: usize, keys: *const u64,
                                   deleted: *mut usize) -> c_int;
    pub fn engine_race_read_many(store: *mut engine_race_store, count: usize, keys: *const u64,
                                 values: *mut c_void, codes: *mut c_int) -> c_int;
    pub fn engine_race_read_async(store: *mut engine_race_store, key: u64, value: *mut c_void,
                                  done: engine_race_done_fn, argument: *mut c_void) -> c_int;
    pub fn engine_race_batch_create(value_bytes: u32) -> *mut engine_race_batch;
    pub fn engine_race_batch_destroy(batch: *mut engine_race_batch);
    pub fn engine_race_batch_write(batch: *mut engine_race_batch, key: u64,
                                   value: *const c_void) -> c_int;
    pub fn engine_race_batch_write_many(batch: *mut engine_race_batch, count: usize,
                                        keys: *const u64, values: *const c_void) -> c_int;
    pub fn engine_race_batch_delete(batch: *mut engine_race_batch, key: u64) -> c_int;
    pub fn engine_race_batch_reserve(batch: *mut engine_race_batch, write_count: usize,
                                     delete_count: usize) -> c_int;
    pub fn engine_race_batch_clear(batch: *mut engine_race_batch);
    pub fn engine_race_batch_size(batch: *const engine_race_batch) -> usize;
    pub fn engine_race_write_batch(store: *mut engine_race_store,
                                   batch: *const engine_race_batch) -> c_int;
    pub fn engine_race_sync(store: *mut engine_race_store) -> c_int;
    pub fn engine_race_refresh(store: *mut engine_race_store) -> c_int;
    pub fn engine_race_compact(store: *mut engine_race_store) -> c_int;
    pub fn engine_race_range(store: *mut engine_race_store, lower: *const u64, upper: *const u64,
                             visit: engine_race_visit_fn, argument: *mut c_void) -> c_int;
    pub fn engine_race_checkpoint(store: *mut engine_race_store, directory: *const c_char) -> c_int;
    pub fn engine_race_backup(store: *mut engine_race_store, directory: *const c_char,
                              since: *const c_char,
                              report: *mut engine_race_backup_report) -> c_int;
    pub fn engine_race_snapshot_take(store: *mut engine_race_store,
                                     snapshot: *mut *mut engine_race_snapshot) -> c_int;
    pub fn engine_race_snapshot_release(snapshot: *mut engine_race_snapshot);
    pub fn engine_race_snapshot_read(snapshot: *const engine_race_snapshot, key: u64,
                                     value: *mut c_void) -> c_int;
    pub fn engine_race_snapshot_read_many(snapshot: *const engine_race_snapshot, count: usize,
                                          keys: *const u64, values: *mut c_void,
                                          codes: *mut c_int) -> c_int;
    pub fn engine_race_snapshot_range(snapshot: *const engine_race_snapshot, lower: *const u64,
                                      upper: *const u64, visit: engine_race_visit_fn,
                                      argument: *mut c_void) -> c_int;
    pub fn engine_race_iterator_create(store: *mut engine_race_store,
                                       options: *const engine_race_iterator_options,
                                       iterator: *mut *mut engine_race_iterator) -> c_int;
    pub fn engine_race_iterator_destroy(iterator: *mut engine_race_iterator);
    pub fn engine_race_iterator_valid(iterator: *const engine_race_iterator) -> c_int;
    pub fn engine_race_iterator_status(iterator: *const engine_race_iterator) -> c_int;
    pub fn engine_race_iterator_seek_to_first(iterator: *mut engine_race_iterator);
    pub fn engine_race_iterator_seek_to_last(iterator: *mut engine_race_iterator);
    pub fn engine_race_iterator_seek(iterator: *mut engine_race_iterator, key: u64);
    pub fn engine_race_iterator_seek_for_prev(iterator: *mut engine_race_iterator, key: u64);
    pub fn engine_race_iterator_next(iterator: *mut engine_race_iterator);
    pub fn engine_race_iterator_prev(iterator: *mut engine_race_iterator);
    pub fn engine_race_iterator_key(iterator: *const engine_race_iterator) -> u64;
    pub fn engine_race_iterator_value(iterator: *mut engine_race_iterator) -> *const c_void;
    pub fn engine_race_iterator_take(iterator: *mut engine_race_iterator, count: usize,
                                     keys: *mut u64, values: *mut c_void,
                                     taken: *mut usize) -> c_int;
    pub fn engine_race_iterator_refresh(iterator: *mut engine_race_iterator) -> c_int;
    pub fn engine_race_stat_name(index: usize) -> *const c_char;
    pub fn engine_race_stats(store: *mut engine_race_store, values: *mut u64, count: usize,
                             given: *mut usize) -> c_int;
    pub fn engine_race_bucket_space(store: *mut engine_race_store, live_bytes: *mut u64,
                                    dead_bytes: *mut u64, count: usize, given: *mut usize) -> c_int;
    pub fn engine_race_latency_stats(store: *mut engine_race_store,
                                     latencies: *mut engine_race_latencies) -> c_int;
    pub fn engine_race_property(store: *mut engine_race_store, name: *const c_char,
                                text: *mut *mut c_char) -> c_int;
    pub fn engine_race_verify(directory: *const c_char, options: *const engine_race_options,
                              report: *mut engine_race_report) -> c_int;
    pub fn engine_race_copy(from: *const c_char, to: *const c_char,
                            options: *const engine_race_options,
                            report: *mut engine_race_report) -> c_int;
    pub fn engine_race_restore(backup: *const c_char, to: *const c_char,
                               options: *const engine_race_options,
                               report: *mut engine_race_backup_report) -> c_int;
    pub fn engine_race_verify_backup(backup: *const c_char, options: *const engine_race_options,
                                     report: *mut engine_race_backup_report) -> c_int;
}
