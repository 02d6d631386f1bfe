//! Single records, many records, batches, and their errors.

use std::error::Error as _;
use std::fs;
use std::io;
use std::sync::Arc;
use std::thread;

use engine_race::{Batch, Code, Key, Options, Store, Value, VALUE_BYTES};

mod common;
use common::{damage, fill, small, value_of, values_of, Scratch};

#[test]
fn a_round_trip() {
    let scratch = Scratch::new();
    let store = scratch.open();
    assert_eq!(store.read(7).unwrap(), None);
    store.write(7, &value_of(7, 1)).unwrap();
    assert_eq!(store.read(7).unwrap(), Some(value_of(7, 1)));
    store.write(u64::MAX, &value_of(u64::MAX, 0)).unwrap();
    store.delete(7).unwrap();
    store.delete(7).unwrap();
    let mut value = value_of(5, 5);
    assert!(!store.read_into(7, &mut value).unwrap());
    assert_eq!(value, value_of(5, 5), "a value that was not read is as it was");
    assert!(store.read_into(u64::MAX, &mut value).unwrap());
    assert_eq!(value, value_of(u64::MAX, 0));
    store.close().unwrap();
    let store = scratch.open();
    assert_eq!(store.read(u64::MAX).unwrap(), Some(value_of(u64::MAX, 0)));
    assert_eq!(store.read(7).unwrap(), None);
}

#[test]
fn keys_are_numbers_or_bytes() {
    let scratch = Scratch::new();
    let store = scratch.open();
    store.write(b"8 bytes!", &value_of(1, 0)).unwrap();
    assert_eq!(store.read(*b"8 bytes!").unwrap(), Some(value_of(1, 0)));
    assert_eq!(store.read(u64::from_be_bytes(*b"8 bytes!")).unwrap(), Some(value_of(1, 0)));
    let mut bytes = [0; 8];
    // SAFETY: there are 8 bytes.
    unsafe { engine_race::sys::engine_race_key_bytes(0x0102, bytes.as_mut_ptr().cast()) };
    assert_eq!(bytes.number(), 0x0102);
}

#[test]
fn values() {
    let value = value_of(3, 4);
    assert_eq!(Value::from(&value[..]), value);
    assert_ne!(Value::from(&value[1..]), value);
    assert_eq!(Value::from(value.clone().into_boxed_slice()), value);
    assert_eq!(value[..], value);
    assert!(format!("{:?}", value).starts_with("Value([00, 00, 00"));
    assert_eq!(format!("{:?}", Value::zeroed(2)), "Value([00, 00]...)");
}

#[test]
fn many_reads_with_missing_keys() {
    let scratch = Scratch::new();
    let store = scratch.open();
    let keys: Vec<u64> = (0..5000).map(|i| i * 3).collect();
    store.write_many(&keys, &values_of(&keys)).unwrap();
    let wanted: Vec<u64> = (0..6000).rev().collect();

    let read = store.read_many(&wanted).unwrap();
    assert_eq!(read.len(), wanted.len());
    for (&key, result) in wanted.iter().zip(read.iter()) {
        let there = key % 3 == 0;
        assert_eq!(result.unwrap(), there.then(|| value_of(key, 0)).as_deref(), "{}", key);
    }
    let vector = read.into_vec();
    assert_eq!(vector[0].as_ref().unwrap(), &None);
    assert_eq!(vector[2].as_ref().unwrap(), &Some(value_of(5997, 0)));

    let mut values = vec![9; 3 * VALUE_BYTES];
    let found = store.read_many_into(&[3, 4, 6], &mut values).unwrap();
    let found: Vec<bool> = found.into_iter().map(Result::unwrap).collect();
    assert_eq!(found, [true, false, true]);
    assert_eq!(values[VALUE_BYTES..2 * VALUE_BYTES], [9; VALUE_BYTES]);
    assert_eq!(values[2 * VALUE_BYTES..], value_of(6, 0));
    assert!(store.read_many(&[]).unwrap().is_empty());
}

#[test]
fn many_writes_end_at_the_first_failure() {
    let scratch = Scratch::new();
    let store = small().key_range(0..=9).open(scratch.join("store")).unwrap();
    let keys = [1, 2, 10, 3];
    let many = store.write_many(&keys, &values_of(&keys)).unwrap_err();
    assert_eq!((many.error.code(), many.done_count), (Code::InvalidArgument, 2));
    assert!(many.to_string().starts_with("after 2 records: kInvalidArgument: "));
    assert_eq!(many.source().unwrap().to_string(), many.error.to_string());
    assert_eq!(store.read(3).unwrap(), None);
    let many = store.delete_many(&[1, 77]).unwrap_err();
    assert_eq!(many.done_count, 1);
    assert_eq!(engine_race::Error::from(many).code(), Code::InvalidArgument);
    assert_eq!(store.read(1).unwrap(), None);
    // Each key of a read fails by itself.
    let read = store.read_many(&[2, 77]).unwrap();
    assert_eq!(read.get(0).unwrap(), Some(&*value_of(2, 0)));
    let error = read.get(1).unwrap_err();
    assert_eq!(error.code(), Code::InvalidArgument);
    assert_eq!(error.to_string(), "kInvalidArgument");
}

#[test]
fn batches() {
    let scratch = Scratch::new();
    let store = scratch.open();
    fill(&store, [1, 2]);
    let mut batch = Batch::new(VALUE_BYTES);
    assert!(batch.is_empty());
    batch.reserve(4, 1).unwrap();
    batch.delete(1).unwrap();
    batch.write(b"8 bytes!", &value_of(8, 8)).unwrap();
    batch.write_many(&[3, 4], &values_of(&[3, 4])).unwrap();
    batch.write(3, &value_of(3, 1)).unwrap();
    assert_eq!(batch.len(), 5);
    store.write_batch(&batch).unwrap();
    assert_eq!(store.read(1).unwrap(), None);
    assert_eq!(store.read(2).unwrap(), Some(value_of(2, 0)));
    assert_eq!(store.read(3).unwrap(), Some(value_of(3, 1)));
    assert_eq!(store.read(b"8 bytes!").unwrap(), Some(value_of(8, 8)));
    batch.clear();
    assert!(batch.is_empty());
    // It may move to another thread, and be used there.
    let batch = thread::spawn(move || {
        batch.delete(2).unwrap();
        batch
    });
    store.write_batch(&batch.join().unwrap()).unwrap();
    assert_eq!(store.read(2).unwrap(), None);
}

#[test]
fn a_batch_with_one_bad_key_writes_nothing() {
    let scratch = Scratch::new();
    let store = small().key_range(0..=9).open(scratch.join("store")).unwrap();
    let mut batch = Batch::new(VALUE_BYTES);
    batch.write_many(&[1, 10], &values_of(&[1, 10])).unwrap();
    assert_eq!(store.write_batch(&batch).unwrap_err().code(), Code::InvalidArgument);
    assert_eq!(store.read(1).unwrap(), None);
}

#[test]
fn many_threads() {
    let scratch = Scratch::new();
    let store = Arc::new(scratch.open());
    let threads: Vec<_> = (0..8u64)
        .map(|number| {
            let store = Arc::clone(&store);
            thread::spawn(move || {
                for key in (0..200).map(|i| i * 8 + number) {
                    store.write(key, &value_of(key, 0)).unwrap();
                    assert_eq!(store.read(key).unwrap(), Some(value_of(key, 0)));
                }
                assert!(store.keys(..).unwrap().all(|key| key.is_ok()));
            })
        })
        .collect();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    assert_eq!(store.keys(..).unwrap().count(), 1600);
    Arc::try_unwrap(store).unwrap().close().unwrap();
}

#[test]
fn options_by_name() {
    let mut options = Options::new();
    options.set("memory_budget_bytes", "64m").unwrap().set("sync_mode", "group").unwrap();
    assert_eq!(options.get("memory_budget_bytes").unwrap(), "67108864");
    let error = options.set("memory_budgets_bytes", "1").unwrap_err();
    assert_eq!(error.code(), Code::InvalidArgument);
    assert!(error.message().contains("memory_budget_bytes"), "{}", error);
    assert_eq!(options.set("read_only", "perhaps").unwrap_err().code(), Code::InvalidArgument);
    assert_eq!(options.set("read_only", "a\0b").unwrap_err().code(), Code::InvalidArgument);
    assert_eq!(options.get("nothing").unwrap_err().code(), Code::InvalidArgument);
    assert!(Options::names().count() > 30);
    assert!(Options::names().any(|name| name == "create_if_missing"));
    assert!(format!("{:?}", options).contains("\"sync_mode\": \"group\""));
}

#[test]
fn typed_options() {
    let mut options = Options::new();
    options
        .read_only(true)
        .worker_count(3)
        .sync_mode(engine_race::SyncMode::EveryWrite)
        .io_backend(engine_race::IoBackend::IoUring)
        .reclaim(engine_race::Reclaim::Off)
        .key_range(5..=u64::MAX)
        .paths(["/a:b", "/c\\d"]);
    let copy = options.clone();
    for (name, value) in [
        ("read_only", "true"),
        ("worker_count", "3"),
        ("sync_mode", "every_write"),
        ("io_backend", "io_uring"),
        ("reclaim", "off"),
        ("key_range", "5-18446744073709551615"),
        ("paths", "/a\\:b:/c\\\\d"),
    ] {
        assert_eq!(copy.get(name).unwrap(), value, "{}", name);
    }
    // Each typed setter has the name of an option.
    let mut options = Options::new();
    options.hot_value_bytes(1).index_memory_bytes(1).async_read_limit(1).async_read_waits(false);
    options.create_if_missing(false).create_among_files(true).verify_checksums(false);
    options.read_only(true).value_bytes(8);
    options.sync_on_close(true).page_cache(true).latency_stats(true).reclaim_dead_percent(20);
    options.reclaim_bytes_per_second(5).memory_budget_bytes(1).bucket_count(1).file_count(1);
    let error = options.open("/nowhere/else").unwrap_err();
    assert!(error.message().contains("memory_budget_bytes"), "{}", error);
    assert_eq!(options.get("reclaim_dead_percent").unwrap(), "20");
    assert_eq!(options.get("async_read_waits").unwrap(), "false");
}

#[test]
fn a_typed_option_that_fails_fails_the_opening() {
    let scratch = Scratch::new();
    let mut options = small();
    options.paths(["a\0b"]);
    for options in [&options, &options.clone()] {
        let error = options.open(scratch.join("store")).unwrap_err();
        assert_eq!(error.code(), Code::InvalidArgument);
        assert!(!scratch.join("store").exists());
    }
    assert!(engine_race::verify(scratch.join("store"), &options).is_err());
}

#[test]
fn errors_have_texts_numbers_and_paths() {
    let scratch = Scratch::new();
    let missing = scratch.join("store");
    let error = small().create_if_missing(false).open(&missing).unwrap_err();
    assert_eq!(error.code(), Code::NotFound);
    assert_eq!(error.path(), Some(missing.as_path()));
    assert!(error.to_string().starts_with("kNotFound: "), "{}", error);
    assert!(format!("{:?}", error).starts_with("Error { code: NotFound, message: "));
    assert_eq!(io::Error::from(error).kind(), io::ErrorKind::NotFound);

    fs::write(scratch.join("file"), "").unwrap();
    let error = small().open(scratch.join("file/store")).unwrap_err();
    const ENOTDIR: i32 = 20;
    assert_eq!((error.code(), error.raw_os_error()), (Code::IoError, Some(ENOTDIR)));
    assert!(error.path().is_some());

    let error = small().bucket_count(3).open(&missing).unwrap_err();
    assert_eq!((error.code(), error.raw_os_error()), (Code::InvalidArgument, None));
    assert!(error.message().contains("bucket_count"), "{}", error);
    assert_eq!(Store::open("a\0b").unwrap_err().code(), Code::InvalidArgument);

    let store = scratch.open();
    let error = small().open(&missing).unwrap_err();
    assert_eq!(error.code(), Code::IoError);
    assert!(error.message().contains("open elsewhere"), "{}", error);
    store.close().unwrap();
    let store = small().read_only(true).open(&missing).unwrap();
    assert_eq!(store.write(1, &value_of(1, 0)).unwrap_err().code(), Code::InvalidArgument);
}

#[test]
fn codes_have_the_numbers_of_c() {
    for number in 1..=11 {
        let code = Code::from_number(number);
        assert_eq!(code.number(), number);
        assert_eq!(matches!(code, Code::Unknown(_)), number == 11);
        assert_eq!(code.to_string() == "unknown code", number == 11);
    }
}

#[test]
fn damaged_values_are_errors() {
    let scratch = Scratch::new();
    let store = scratch.open();
    fill(&store, 0..100);
    store.close().unwrap();
    damage(&scratch.join("store"), &value_of(7, 0));

    let error = engine_race::verify(scratch.join("store"), &small()).unwrap_err();
    assert_eq!(error.code(), Code::Corruption);
    assert_eq!(error.report().map(|report| report.bad_count), Some(1));
    let store = scratch.open();
    let error = store.read(7).unwrap_err();
    assert_eq!(error.code(), Code::Corruption);
    assert!(!error.message().is_empty() && error.report().is_none());
    assert_eq!(store.read(8).unwrap(), Some(value_of(8, 0)));
    let read = store.read_many(&[6, 7, 8]).unwrap();
    assert_eq!(read.get(1).unwrap_err().code(), Code::Corruption);
    assert_eq!(read.get(2).unwrap(), Some(&*value_of(8, 0)));
    // An iterator ends with it, from either end.
    for backwards in [false, true] {
        let mut iter = store.iter(5..10).unwrap();
        let mut next = || if backwards { iter.next_back() } else { iter.next() };
        assert!(next().unwrap().is_ok() && next().unwrap().is_ok());
        assert_eq!(next().unwrap().unwrap_err().code(), Code::Corruption);
        assert!(next().is_none());
    }
    let mut cursor = store.cursor(..).unwrap();
    assert!(cursor.seek(7).unwrap());
    assert_eq!(cursor.value().unwrap_err().code(), Code::Corruption);
    assert_eq!(cursor.next().unwrap_err().code(), Code::Corruption);
    assert!(cursor.seek(8).unwrap());
}
