//! Finds the library: in ENGINE_RACE_LIB_DIR, by pkg-config, or in the checkout with this crate.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

const OLDEST_VERSION: &str = "0.9";
const SYSTEM_LIBRARIES: [&str; 4] = ["stdc++", "m", "pthread", "rt"];

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    for name in ["ENGINE_RACE_LIB_DIR", "PKG_CONFIG", "PKG_CONFIG_PATH"] {
        println!("cargo:rerun-if-env-changed={}", name);
    }
    // Documentation is made without the library.
    if env::var_os("DOCS_RS").is_some() {
        return;
    }
    let is_static = env::var_os("CARGO_FEATURE_STATIC").is_some();
    let directory = match find(is_static) {
        Ok(directory) => directory,
        Err(why) => {
            eprintln!("{}", why);
            std::process::exit(1);
        }
    };
    println!("cargo:rustc-link-search=native={}", directory.display());
    // For build scripts of the crates that depend on this one: DEP_ENGINE_RACE_LIB_DIR.
    println!("cargo:lib_dir={}", directory.display());
    if is_static {
        // A checkout's archive has another name than an installed one.
        let name = if has(&directory, "libengine_race.a") { "engine_race" } else { "engine" };
        println!("cargo:rustc-link-lib=static={}", name);
        for library in SYSTEM_LIBRARIES {
            println!("cargo:rustc-link-lib=dylib={}", library);
        }
    } else {
        println!("cargo:rustc-link-lib=dylib=engine_race");
        // For this crate's own tests and examples alone.
        println!("cargo:rustc-link-arg=-Wl,-rpath,{}", directory.display());
    }
}

fn has(directory: &Path, file: &str) -> bool {
    directory.join(file).exists()
}

fn has_library(directory: &Path, is_static: bool) -> bool {
    if is_static {
        has(directory, "libengine_race.a") || has(directory, "libengine.a")
    } else {
        has(directory, "libengine_race.so")
    }
}

fn find(is_static: bool) -> Result<PathBuf, String> {
    if let Some(named) = env::var_os("ENGINE_RACE_LIB_DIR") {
        let directory = PathBuf::from(named);
        return match has_library(&directory, is_static) {
            true => Ok(directory),
            false => Err(format!("ENGINE_RACE_LIB_DIR has no library: {}", directory.display())),
        };
    }
    let crate_directory = env::var_os("CARGO_MANIFEST_DIR").expect("cargo sets it");
    let checkout = Path::new(&crate_directory).join("../../lib");
    by_pkg_config(is_static)
        .into_iter()
        .chain(checkout.canonicalize())
        .find(|directory| has_library(directory, is_static))
        .ok_or_else(|| {
            "the library engine_race was not found: install it, so that pkg-config knows it, \
             run `make shared` in a checkout, or set ENGINE_RACE_LIB_DIR to its directory"
                .to_string()
        })
}

/// The directory that pkg-config names for a version that fits.
fn by_pkg_config(is_static: bool) -> Option<PathBuf> {
    let package = if is_static { "engine_race-static" } else { "engine_race" };
    let program = env::var_os("PKG_CONFIG").unwrap_or_else(|| "pkg-config".into());
    let fits = Command::new(&program)
        .arg(format!("--atleast-version={}", OLDEST_VERSION))
        .arg(package)
        .status()
        .ok()?;
    if !fits.success() {
        return None;
    }
    let told = Command::new(&program).args(["--variable=libdir", package]).output().ok()?;
    let directory = String::from_utf8(told.stdout).ok()?;
    Some(PathBuf::from(directory.trim_end()))
}
