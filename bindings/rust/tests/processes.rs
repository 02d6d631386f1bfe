//! Processes that are killed, and several openers.

use std::env;
use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Stdio};

use engine_race::{Code, Store};

mod common;
use common::{fill, small, value_of, Scratch};

#[test]
fn any_number_of_readers() {
    let scratch = Scratch::new();
    let store = scratch.open();
    fill(&store, [1]);
    store.close().unwrap();
    let mut options = small();
    options.read_only(true);
    let readers: Vec<Store> =
        (0..3).map(|_| options.open(scratch.join("store")).unwrap()).collect();
    for reader in &readers {
        assert_eq!(reader.read(1).unwrap(), Some(value_of(1, 0)));
    }
    assert_eq!(small().open(scratch.join("store")).unwrap_err().code(), Code::IoError);
}

const STORE_OF_CHILD: &str = "ENGINE_RACE_TEST_STORE_OF_CHILD";

/// Writes until it is killed, and tells of each record once it is acknowledged.
#[test]
fn writer_that_is_killed() {
    let directory = match env::var_os(STORE_OF_CHILD) {
        Some(directory) => directory,
        None => return,
    };
    let store = small().open(directory).unwrap();
    let mut told = std::io::stdout();
    for version in 0.. {
        let key = version % 100;
        store.write(key, &value_of(key, version)).unwrap();
        // Fails when the parent has gone.
        writeln!(told, "\nwrote {}", version).unwrap();
    }
}

#[test]
fn what_was_acknowledged_outlives_a_kill() {
    let scratch = Scratch::new();
    for round in 0..3u64 {
        let mut child = Command::new(env::current_exe().unwrap())
            .args(["--exact", "writer_that_is_killed", "--nocapture", "--test-threads=1"])
            .env(STORE_OF_CHILD, scratch.join("store"))
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut told = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut last = None;
        let mut note = |line: String| {
            if let Some(version) = line.strip_prefix("wrote ") {
                // A number that the kill has cut off is smaller.
                last = last.max(version.parse::<u64>().ok());
            }
            last
        };
        while note(told.next().unwrap().unwrap()) < Some(1000 + round * 777) {}
        child.kill().unwrap();
        for line in told {
            note(line.unwrap());
        }
        child.wait().unwrap();
        let last = last.unwrap();
        let store = small().open(scratch.join("store")).unwrap();
        // The last write may be there without its line.
        for key in 0..100 {
            let value = store.read(key).unwrap().expect("it was acknowledged");
            let version = u64::from_be_bytes(value[8..16].try_into().unwrap());
            assert_eq!(value, value_of(key, version), "a mixed value");
            let newest = last - (last + 100 - key) % 100;
            assert!(version >= newest, "{}: {} of {}", key, version, newest);
            assert!(version <= last + 2, "{}: {} of {}", key, version, last);
        }
        store.close().unwrap();
    }
}
