//! Ranges, iterators, cursors and snapshots.

use std::collections::BTreeMap;
use std::mem;
use std::ops::{Bound, ControlFlow, RangeBounds};
use std::thread;

use engine_race::{Store, Value, VALUE_BYTES};

mod common;
use common::{fill, value_of, Scratch};

type Bounds = (Bound<u64>, Bound<u64>);

/// Bounds around the keys of `EDGES`, with those that are empty and those that are upside down.
fn all_bounds() -> Vec<Bounds> {
    let keys = [0, 1, 2, 3, 10, 11, 50, u64::MAX - 1, u64::MAX];
    let bounds = |key: u64| [Bound::Included(key), Bound::Excluded(key)];
    let mut one: Vec<Bound<u64>> = keys.iter().copied().flat_map(bounds).collect();
    one.push(Bound::Unbounded);
    let pairs = |&lower: &Bound<u64>| one.iter().map(|&upper| (lower, upper)).collect::<Vec<_>>();
    one.iter().flat_map(pairs).collect()
}

const EDGES: [u64; 7] = [0, 1, 3, 10, 11, u64::MAX - 1, u64::MAX];

fn expected(bounds: &Bounds) -> Vec<u64> {
    EDGES.iter().copied().filter(|key| bounds.contains(key)).collect()
}

fn keys_of(records: impl Iterator<Item = engine_race::Result<(u64, Value)>>) -> Vec<u64> {
    records
        .map(|record| {
            let (key, value) = record.unwrap();
            assert_eq!(value, value_of(key, 0));
            key
        })
        .collect()
}

#[test]
fn bounds() {
    let scratch = Scratch::new();
    let store = scratch.open();
    fill(&store, EDGES);
    let snapshot = store.snapshot().unwrap();
    store.write(2, &value_of(2, 0)).unwrap();
    store.delete(2).unwrap();
    for bounds in all_bounds() {
        let expected = expected(&bounds);
        let reversed: Vec<u64> = expected.iter().rev().copied().collect();
        assert_eq!(keys_of(store.iter(bounds).unwrap()), expected, "{:?}", bounds);
        assert_eq!(keys_of(store.iter(bounds).unwrap().rev()), reversed, "{:?}", bounds);
        assert_eq!(keys_of(snapshot.iter(bounds).unwrap()), expected, "{:?}", bounds);
        let keys: Vec<u64> = store.keys(bounds).unwrap().map(Result::unwrap).collect();
        assert_eq!(keys, expected, "{:?}", bounds);
        let mut visited = Vec::new();
        store
            .range(bounds, |key, value| {
                assert_eq!(*value, value_of(key, 0));
                visited.push(key);
                ControlFlow::Continue(())
            })
            .unwrap();
        assert_eq!(visited, expected, "{:?}", bounds);
        let mut visited = Vec::new();
        snapshot
            .range(bounds, |key, _| {
                visited.push(key);
                ControlFlow::Continue(())
            })
            .unwrap();
        assert_eq!(visited, expected, "{:?}", bounds);
    }
    // Ranges of all kinds, with literals of any type.
    assert_eq!(store.keys(1..3).unwrap().count(), 1);
    assert_eq!(store.keys(1..=3).unwrap().count(), 2);
    assert_eq!(store.keys(..=3).unwrap().count(), 3);
    assert_eq!(store.keys(11..).unwrap().count(), 3);
}

/// Takes from the front where a bit is set, and from the back where it is not.
#[test]
fn iterators_from_both_ends() {
    let scratch = Scratch::new();
    let store = scratch.open();
    fill(&store, EDGES);
    for bits in 0..1u32 << (EDGES.len() + 1) {
        let mut iter = store.iter(..).unwrap();
        let mut left: Vec<u64> = EDGES.to_vec();
        for at in 0..=EDGES.len() {
            let is_front = bits >> at & 1 == 1;
            let given = if is_front { iter.next() } else { iter.next_back() };
            let wanted = match is_front && !left.is_empty() {
                true => Some(left.remove(0)),
                false => left.pop(),
            };
            assert_eq!(given.map(|record| record.unwrap().0), wanted, "{:b} {}", bits, at);
        }
        assert!(iter.next().is_none() && iter.next_back().is_none());
    }
}

#[test]
fn iterators_show_one_state() {
    let scratch = Scratch::new();
    let store = scratch.open();
    fill(&store, 0..1000);
    let mut iter = store.iter(..).unwrap();
    let mut keys = store.keys(..).unwrap();
    assert_eq!(iter.next().unwrap().unwrap().0, 0);
    assert_eq!(keys.next().unwrap().unwrap(), 0);
    store.delete_many(&(0..500).collect::<Vec<_>>()).unwrap();
    store.write(2000, &value_of(2000, 0)).unwrap();
    assert_eq!(iter.next_back().unwrap().unwrap().0, 999);
    assert_eq!(keys_of(&mut iter), (1..999).collect::<Vec<_>>());
    assert_eq!(keys.map(Result::unwrap).collect::<Vec<_>>(), (1..1000).collect::<Vec<_>>());
}

#[test]
fn snapshots() {
    let scratch = Scratch::new();
    let store = scratch.open();
    fill(&store, 0..10);
    let snapshot = store.snapshot().unwrap();
    store.write(1, &value_of(1, 1)).unwrap();
    store.delete(2).unwrap();
    store.write(b"8 bytes!", &value_of(3, 1)).unwrap();
    assert_eq!(snapshot.read(1).unwrap(), Some(value_of(1, 0)));
    assert_eq!(snapshot.read(b"8 bytes!").unwrap(), None);
    let mut value = [0; VALUE_BYTES];
    assert!(snapshot.read_into(2, &mut value).unwrap());
    assert_eq!(value, value_of(2, 0));
    let many = snapshot.read_many(&[1, 2, 10]).unwrap();
    assert_eq!(many.get(1).unwrap(), Some(&*value_of(2, 0)));
    assert_eq!(many.get(2).unwrap(), None);
    let mut values = [0; VALUE_BYTES];
    assert!(*snapshot.read_many_into(&[1], &mut values).unwrap()[0].as_ref().unwrap());
    assert_eq!(values, value_of(1, 0));
    assert_eq!(keys_of(snapshot.iter(..).unwrap()), (0..10).collect::<Vec<_>>());
    assert_eq!(snapshot.keys(5..).unwrap().count(), 5);
    assert_eq!(snapshot.store().read(1).unwrap(), Some(value_of(1, 1)));
    let mut cursor = snapshot.cursor(..).unwrap();
    assert!(cursor.seek(2).unwrap() && cursor.key() == Some(2));
    cursor.refresh().unwrap();
    assert!(cursor.seek(2).unwrap() && cursor.key() == Some(3), "the latest state has no 2");
    // Several threads read one snapshot.
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| assert_eq!(snapshot.read(1).unwrap(), Some(value_of(1, 0))));
        }
    });
}

#[test]
fn cursors_go_both_ways() {
    let scratch = Scratch::new();
    let store = scratch.open();
    fill(&store, (0..100).map(|i| i * 10));
    let mut cursor = store.cursor(100..=900).unwrap();
    assert!(!cursor.is_valid() && cursor.key().is_none() && cursor.value().unwrap().is_none());
    assert!(!cursor.next().unwrap() && !cursor.prev().unwrap());
    assert!(cursor.seek_to_first().unwrap());
    assert_eq!(cursor.key(), Some(100));
    assert!(!cursor.prev().unwrap());
    assert!(cursor.seek(555).unwrap());
    assert_eq!(cursor.key(), Some(560));
    assert!(cursor.seek_for_prev(555).unwrap());
    assert_eq!(cursor.key(), Some(550));
    assert_eq!(cursor.value().unwrap(), Some(&*value_of(550, 0)));
    assert!(cursor.seek_to_last().unwrap());
    assert_eq!(cursor.key(), Some(900));
    assert!(!cursor.next().unwrap() && cursor.key().is_none());
    assert!(!cursor.seek(901).unwrap());
    assert!(!cursor.seek_for_prev(b"\0\0\0\0\0\0\0\x63").unwrap());
    let moved = thread::scope(|scope| {
        scope
            .spawn(move || {
                cursor.seek_to_first().unwrap();
                cursor
            })
            .join()
            .unwrap()
    });
    assert_eq!(moved.key(), Some(100));
}

#[test]
fn cursors_take_many() {
    let scratch = Scratch::new();
    let store = scratch.open();
    fill(&store, 0..10);
    let mut cursor = store.cursor(..).unwrap();
    cursor.seek(2).unwrap();
    let (mut keys, mut values) = ([0; 5], [0; 5 * VALUE_BYTES]);
    assert_eq!(cursor.take(&mut keys, Some(&mut values)).unwrap(), 5);
    assert_eq!(keys, [2, 3, 4, 5, 6]);
    assert_eq!(values[4 * VALUE_BYTES..], value_of(6, 0));
    assert_eq!(cursor.take(&mut keys, None).unwrap(), 3);
    assert_eq!(keys[..3], [7, 8, 9]);
    assert_eq!(cursor.take(&mut keys, None).unwrap(), 0);
}

#[test]
fn cursors_move_on_to_the_latest_state() {
    let scratch = Scratch::new();
    let store = scratch.open();
    fill(&store, [1]);
    let mut options = engine_race::CursorOptions::default();
    options.prefetch_records = 64;
    let mut cursor = store.cursor_with(.., options).unwrap();
    store.write(2, &value_of(2, 0)).unwrap();
    assert!(!cursor.seek(2).unwrap());
    cursor.refresh().unwrap();
    assert!(!cursor.is_valid());
    assert!(cursor.seek(2).unwrap());
    options.refresh_every_steps = 1;
    let mut fresh = store.cursor_with(.., options).unwrap();
    assert!(fresh.seek(1).unwrap());
    store.write(3, &value_of(3, 0)).unwrap();
    assert!(fresh.next().unwrap() && fresh.next().unwrap());
    assert_eq!(fresh.key(), Some(3));
}

#[test]
fn visitors_end_a_walk_and_use_the_store() {
    let scratch = Scratch::new();
    let store = scratch.open();
    fill(&store, 0..100);
    let mut seen = BTreeMap::new();
    let walked = store.range(10.., |key, value| {
        seen.insert(key, value.to_vec());
        store.write(key, &value_of(key, 1)).unwrap();
        store.range(key..=key, |_, _| ControlFlow::Continue(())).unwrap();
        if key == 12 {
            ControlFlow::Break(())
        } else {
            ControlFlow::Continue(())
        }
    });
    walked.unwrap();
    assert_eq!(seen.keys().copied().collect::<Vec<_>>(), [10, 11, 12]);
    assert_eq!(seen[&12], value_of(12, 0)[..]);
    assert_eq!(store.read(12).unwrap(), Some(value_of(12, 1)));
}

#[test]
fn what_is_leaked_does_not_keep_a_store_from_closing() {
    let scratch = Scratch::new();
    let store = scratch.open();
    fill(&store, 0..10);
    let mut iter = store.iter(..).unwrap();
    iter.next().unwrap().unwrap();
    mem::forget(iter);
    mem::forget(store.snapshot().unwrap());
    store.close().unwrap();
    assert_eq!(scratch.open().keys(..).unwrap().count(), 10);
}

fn is_send<T: Send>() {}
fn is_shared<T: Send + Sync>() {}

#[test]
fn types_that_threads_may_share() {
    is_shared::<Store>();
    is_shared::<engine_race::Snapshot<'_>>();
    is_shared::<engine_race::Options>();
    is_shared::<engine_race::Error>();
    is_shared::<engine_race::Values>();
    is_send::<engine_race::Cursor<'_>>();
    is_send::<engine_race::Iter<'_>>();
    is_send::<engine_race::Keys<'_>>();
    is_send::<engine_race::Batch>();
    is_shared::<engine_race::ReadFuture>();
}
