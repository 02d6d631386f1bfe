//! Stores whose values have other sizes than 4096 bytes.

use std::ops::ControlFlow;
use std::sync::mpsc;

use engine_race::{Batch, Code, Options, Store, Value};

mod common;
use common::{small, Scratch};

const SIZES: [usize; 8] = [8, 100, 512, 1536, 3072, 4096, 16384, 1 << 20];

fn value_of(key: u64, size: usize) -> Value {
    // Seven bytes do not fit into any of the sizes.
    let part = (key * 251 + 7).to_be_bytes();
    let bytes: Vec<u8> = part[1..].iter().copied().cycle().take(size).collect();
    Value::from(&bytes[..])
}

fn count_of(size: usize) -> u64 {
    if size == 1 << 20 {
        40
    } else {
        300
    }
}

fn values_of(keys: &[u64], size: usize) -> Vec<u8> {
    keys.iter().flat_map(|&key| value_of(key, size).to_vec()).collect()
}

fn open(scratch: &Scratch, size: usize) -> Store {
    small().value_bytes(size as u32).open(scratch.join("store")).unwrap()
}

#[test]
fn records_come_back() {
    for size in SIZES {
        let scratch = Scratch::new();
        let store = open(&scratch, size);
        assert_eq!(store.value_bytes(), size);
        let keys: Vec<u64> = (0..count_of(size)).collect();
        store.write_many(&keys[1..], &values_of(&keys[1..], size)).unwrap();
        store.write(0, &value_of(0, size)).unwrap();
        store.close().unwrap();
        // The size of an existing store need not be told.
        let store = scratch.open();
        assert_eq!(store.value_bytes(), size);
        let mut into = vec![0; size];
        for &key in &keys {
            assert_eq!(store.read(key).unwrap(), Some(value_of(key, size)), "{} of {}", key, size);
            assert!(store.read_into(key, &mut into).unwrap());
            assert_eq!(into[..], value_of(key, size));
        }
        assert_eq!(store.read(count_of(size)).unwrap(), None);
        let read = store.read_many(&[5, count_of(size), 7]).unwrap();
        assert_eq!(read.get(0).unwrap(), Some(&*value_of(5, size)));
        assert_eq!(read.get(1).unwrap(), None);
        let read = read.into_vec();
        assert_eq!(read[2].as_ref().unwrap().as_ref(), Some(&value_of(7, size)));
        let mut rows = vec![0; 2 * size];
        store.snapshot().unwrap().read_many_into(&[9, 3], &mut rows).unwrap();
        assert_eq!(rows, values_of(&[9, 3], size));
        let (sender, receiver) = mpsc::channel();
        store.read_async(6, move |read| sender.send(read).unwrap()).unwrap();
        assert_eq!(receiver.recv().unwrap().unwrap(), Some(value_of(6, size)));
    }
}

#[test]
fn walks() {
    for size in SIZES {
        let scratch = Scratch::new();
        let store = open(&scratch, size);
        let keys: Vec<u64> = (0..count_of(size)).collect();
        store.write_many(&keys, &values_of(&keys, size)).unwrap();
        let wanted: Vec<_> = keys.iter().map(|&key| (key, value_of(key, size))).collect();
        let found = store.iter(..).unwrap().map(Result::unwrap).collect::<Vec<_>>();
        assert!(found == wanted, "{}", size);
        let found = store.iter(..).unwrap().rev().map(Result::unwrap).collect::<Vec<_>>();
        assert!(found.iter().eq(wanted.iter().rev()), "{}", size);
        let mut visited = Vec::new();
        store
            .range(.., |key, value| {
                visited.push((key, Value::from(value)));
                ControlFlow::Continue(())
            })
            .unwrap();
        assert!(visited == wanted, "{}", size);
        let mut cursor = store.cursor(..).unwrap();
        assert!(cursor.seek(7).unwrap());
        assert_eq!(cursor.value().unwrap(), Some(&*value_of(7, size)));
        let (mut taken, mut rows) = ([0; 5], vec![0; 5 * size]);
        assert_eq!(cursor.take(&mut taken, Some(&mut rows)).unwrap(), 5);
        assert_eq!(rows, values_of(&[7, 8, 9, 10, 11], size));
        let too_few = cursor.take(&mut taken, Some(&mut rows[1..])).unwrap_err();
        assert_eq!(too_few.code(), Code::InvalidArgument);
    }
}

#[test]
fn slices_of_other_sizes_are_refused() {
    for size in SIZES {
        let scratch = Scratch::new();
        let store = open(&scratch, size);
        let mut batch = Batch::new(size);
        for other in [0, size - 1, size + 1] {
            let mut value = vec![0; other];
            let told = format!("a value has {} bytes, and {} are given", size, other);
            let error = store.write(1, &value).unwrap_err();
            assert_eq!((error.code(), error.message()), (Code::InvalidArgument, &told[..]));
            assert_eq!(store.read_into(1, &mut value).unwrap_err().message(), told);
            assert_eq!(batch.write(1, &value).unwrap_err().message(), told);
            let told = format!("2 values have {} bytes each, and {} are given", size, size + other);
            let mut values = vec![0; size + other];
            let many = store.write_many(&[1, 2], &values).unwrap_err();
            assert_eq!((many.error.message(), many.done_count), (&told[..], 0));
            let error = store.read_many_into(&[1, 2], &mut values).unwrap_err();
            assert_eq!(error.message(), told);
            assert_eq!(batch.write_many(&[1, 2], &values).unwrap_err().message(), told);
        }
        assert!(batch.is_empty());
        assert_eq!(store.keys(..).unwrap().count(), 0);
    }
}

#[test]
fn batches_fit_stores_of_their_size() {
    for size in SIZES {
        let scratch = Scratch::new();
        let store = open(&scratch, size);
        let mut batch = Batch::new(size);
        batch.write_many(&[1, 2], &values_of(&[1, 2], size)).unwrap();
        batch.write(3, &value_of(3, size)).unwrap();
        store.write_batch(&batch).unwrap();
        for key in [1, 2, 3] {
            assert_eq!(store.read(key).unwrap(), Some(value_of(key, size)));
        }
        let mut other = Batch::new(size + 1 - 2 * usize::from(size == 1 << 20));
        other.delete(1).unwrap();
        let error = store.write_batch(&other).unwrap_err();
        assert_eq!(error.code(), Code::InvalidArgument);
        assert!(error.message().contains(&size.to_string()), "{}", error);
        assert!(store.read(1).unwrap().is_some());
    }
}

#[test]
#[should_panic(expected = "no store has values of 7 bytes")]
fn no_batch_has_a_size_that_no_store_has() {
    let _ = Batch::new(7);
}

#[test]
fn a_store_keeps_its_size() {
    let scratch = Scratch::new();
    let path = scratch.join("store");
    assert_eq!(Options::new().get("value_bytes").unwrap(), "0");
    open(&scratch, 512).close().unwrap();
    let error = small().value_bytes(4096).open(&path).unwrap_err();
    assert_eq!(error.code(), Code::InvalidArgument);
    assert!(error.message().contains("4096") && error.message().contains("512"), "{}", error);
    assert_eq!(open(&scratch, 512).value_bytes(), 512);
    for size in [7, (1 << 20) + 1] {
        let error = small().value_bytes(size).open(scratch.join("another")).unwrap_err();
        assert!(error.message().contains("value_bytes"), "{}", error);
    }
    assert_eq!(engine_race::verify(&path, small().value_bytes(4096)).unwrap().bad_count, 0);
    let store = small().open(scratch.join("default")).unwrap();
    assert_eq!(store.value_bytes(), engine_race::VALUE_BYTES);
}
