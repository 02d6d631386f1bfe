//! Directories, options and values of the tests.

#![allow(dead_code)]

use std::fs;
use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use engine_race::{Options, Store, Value, VALUE_BYTES};

/// A directory of its own, removed at the end of the test.
pub struct Scratch(PathBuf);

impl Scratch {
    pub fn new() -> Scratch {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("{}_{}", std::process::id(), number);
        let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
        // Of a killed run with this number.
        let _ = fs::remove_dir_all(&directory);
        fs::create_dir_all(&directory).unwrap();
        Scratch(directory)
    }

    pub fn open(&self) -> Store {
        small().open(self.join("store")).unwrap()
    }
}

impl Deref for Scratch {
    type Target = Path;
    fn deref(&self) -> &Path {
        &self.0
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

pub fn small() -> Options {
    let mut options = Options::new();
    options.memory_budget_bytes(64 << 20).bucket_count(16).file_count(4);
    options
}

/// A value that tells its key and its version.
pub fn value_of(key: u64, version: u64) -> Value {
    let mut value = Value::zeroed(VALUE_BYTES);
    for part in value.chunks_exact_mut(16) {
        part[..8].copy_from_slice(&key.to_be_bytes());
        part[8..].copy_from_slice(&version.to_be_bytes());
    }
    value
}

pub fn values_of(keys: &[u64]) -> Vec<u8> {
    keys.iter().flat_map(|&key| value_of(key, 0).to_vec()).collect()
}

pub fn fill(store: &Store, keys: impl IntoIterator<Item = u64>) {
    for key in keys {
        store.write(key, &value_of(key, 0)).unwrap();
    }
}

/// Changes a value wherever a file of the directory has it.
pub fn damage(directory: &Path, value: &Value) {
    let mut found = 0;
    for file in fs::read_dir(directory).unwrap() {
        let path = file.unwrap().path();
        let mut bytes = fs::read(&path).unwrap();
        let mut is_changed = false;
        for block in bytes.chunks_exact_mut(VALUE_BYTES) {
            if block == &value[..] {
                block[..6].copy_from_slice(b"damage");
                is_changed = true;
                found += 1;
            }
        }
        if is_changed {
            fs::write(&path, &bytes).unwrap();
        }
    }
    assert!(found > 0);
}
