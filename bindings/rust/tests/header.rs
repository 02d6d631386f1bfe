//! `src/sys.rs` has the C header's functions, types, sizes and numbers, and no others.

use std::collections::BTreeMap;
use std::fs;
use std::mem::{align_of, size_of, MaybeUninit};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::ptr::addr_of;

use engine_race::sys::*;

mod common;
use common::Scratch;

fn header_path() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../include/engine_race_c.h")
}

fn header() -> String {
    let text = fs::read_to_string(header_path()).unwrap();
    let mut code = String::new();
    for (number, part) in text.split("/*").enumerate() {
        code += match number {
            0 => part,
            _ => part.split_once("*/").unwrap().1,
        };
    }
    code.lines().filter(|line| !line.starts_with('#')).map(|line| format!("{} ", line)).collect()
}

fn one_blank(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// A type of C, in Rust.
fn type_of(c_type: &str) -> String {
    let plain = c_type.replace("volatile ", "");
    let stars = plain.matches('*').count();
    let base = plain.replace('*', "");
    let is_const = base.trim().starts_with("const ");
    let base = match base.trim().trim_start_matches("const ") {
        "int" => "c_int",
        "char" => "c_char",
        "void" => "c_void",
        "uint64_t" => "u64",
        "uint32_t" => "u32",
        "size_t" => "usize",
        other => other,
    };
    // The innermost pointer is to something constant.
    let star = |at| if is_const && at + 1 == stars { "*const " } else { "*mut " };
    (0..stars).map(star).collect::<String>() + base
}

/// A parameter or a member of C as Rust has it: "key: u64".
fn declared(c_text: &str) -> String {
    let name_at = c_text.rfind(|c: char| !c.is_alphanumeric() && c != '_').unwrap() + 1;
    format!("{}: {}", &c_text[name_at..], type_of(&c_text[..name_at]))
}

fn parameters_of(c_text: &str) -> String {
    match c_text.trim() {
        "void" => String::new(),
        text => text.split(',').map(|one| declared(one.trim())).collect::<Vec<_>>().join(", "),
    }
}

/// Parameters and answers of all functions and types of functions, by their names.
fn functions_of_header() -> BTreeMap<String, String> {
    let header = header();
    let mut found = BTreeMap::new();
    for statement in header.split(&[';', '{', '}'][..]) {
        let statement = one_blank(statement);
        let (head, tail) = match statement.split_once('(') {
            Some(parts) => parts,
            None => continue,
        };
        let (answer, name, parameters) = if let Some(answer) = head.strip_prefix("typedef ") {
            let (name, parameters) = tail.split_once(")(").unwrap();
            (answer, &name[1..], parameters)
        } else {
            let name_at = head.rfind(&[' ', '*'][..]).unwrap() + 1;
            (&head[..name_at], &head[name_at..], tail)
        };
        let answer = match type_of(answer).as_str() {
            "c_void" => String::new(),
            answer => format!(" -> {}", answer),
        };
        let parameters = parameters_of(parameters.trim_end_matches(')'));
        found.insert(name.to_string(), format!("fn({}){}", parameters, answer));
    }
    found
}

fn functions_of_rust() -> BTreeMap<String, String> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/sys.rs");
    let text = fs::read_to_string(path).unwrap();
    let mut found = BTreeMap::new();
    for statement in text.split(';') {
        let statement = one_blank(statement).replace(",)", ")").replace("( ", "(");
        let (name, rest) = if let Some((_, rest)) = statement.split_once("pub fn ") {
            rest.split_once('(').unwrap()
        } else if let Some((head, rest)) = statement.split_once("unsafe extern \"C\" fn(") {
            let name = head.split_once("pub type ").unwrap().1.split(' ').next().unwrap();
            (name, rest.rsplit_once('>').unwrap().0)
        } else {
            continue;
        };
        let rest = rest.trim().trim_end_matches(',');
        found.insert(name.to_string(), format!("fn({}", rest).replace(", )", ")"));
    }
    found
}

#[test]
fn every_function_is_declared_as_the_header_has_it() {
    let expected = functions_of_header();
    assert!(expected.len() > 70);
    let declared = functions_of_rust();
    for (name, function) in &expected {
        assert_eq!(declared.get(name), Some(function), "{}", name);
    }
    let names = |of: &BTreeMap<String, String>| of.keys().cloned().collect::<Vec<_>>();
    assert_eq!(names(&declared), names(&expected));
}

/// Names of C with their numbers in Rust.
struct Numbers(Vec<(String, i64)>);

macro_rules! add_numbers {
    ($numbers:ident: $($name:ident)*) => {$(
        $numbers.0.push((stringify!($name).to_string(), $name as i64));
    )*};
}

macro_rules! add_struct {
    ($numbers:ident: $name:ident { $($member:ident)* }) => {{
        let name = stringify!($name);
        $numbers.0.push((format!("sizeof({})", name), size_of::<$name>() as i64));
        $numbers.0.push((format!("_Alignof({})", name), align_of::<$name>() as i64));
        let mut end = 0;
        let one = MaybeUninit::<$name>::uninit();
        let base = one.as_ptr();
        $(
            // SAFETY: no member is read.
            let (at, bytes) = unsafe {
                let at = addr_of!((*base).$member);
                (at as usize - base as usize, size_of_pointed(at))
            };
            let member = stringify!($member);
            $numbers.0.push((format!("offsetof({}, {})", name, member), at as i64));
            $numbers.0.push((format!("sizeof((({}*)0)->{})", name, member), bytes as i64));
            assert_eq!(at, end, "{} of {}", member, name);
            end = at + bytes;
        )*
        assert_eq!(end, size_of::<$name>(), "a member of {} is missing here", name);
    }};
}

fn size_of_pointed<T>(_at: *const T) -> usize {
    size_of::<T>()
}

fn numbers() -> Numbers {
    let mut numbers = Numbers(Vec::new());
    add_numbers!(numbers: ENGINE_RACE_VERSION_MAJOR ENGINE_RACE_VERSION_MINOR
        ENGINE_RACE_VERSION_PATCH ENGINE_RACE_KEY_BYTES ENGINE_RACE_VALUE_BYTES
        ENGINE_RACE_MIN_VALUE_BYTES ENGINE_RACE_MAX_VALUE_BYTES
        ENGINE_RACE_LOG_TEXT_BYTES ENGINE_RACE_OK ENGINE_RACE_NOT_FOUND ENGINE_RACE_CORRUPTION
        ENGINE_RACE_NOT_SUPPORTED ENGINE_RACE_INVALID_ARGUMENT ENGINE_RACE_IO_ERROR
        ENGINE_RACE_INCOMPLETE ENGINE_RACE_TIMED_OUT ENGINE_RACE_FULL ENGINE_RACE_OUT_OF_MEMORY
        ENGINE_RACE_BUSY);
    add_struct!(numbers: engine_race_log_message { struct_bytes level time_ns text });
    add_struct!(numbers: engine_race_backup_report
        { struct_bytes record_count value_count chain_length size_bytes });
    add_struct!(numbers: engine_race_iterator_options
        { struct_bytes snapshot lower upper prefetch_records refresh_every_steps });
    add_struct!(numbers: engine_race_latency
        { count mean_ns p50_ns p95_ns p99_ns p999_ns max_ns });
    add_struct!(numbers: engine_race_latencies
        { struct_bytes measured read multi_read async_read write range sync group_write flush });
    add_struct!(numbers: engine_race_report
        { struct_bytes record_count bad_count lost_tail_count index_record_count
          index_unusable_bucket_count });
    numbers
}

#[test]
fn numbers_sizes_and_offsets_are_those_of_the_header() {
    let scratch = Scratch::new();
    let (source, program) = (scratch.join("numbers.c"), scratch.join("numbers"));
    let numbers = numbers().0;
    let mut code = format!("#include \"{}\"\n#include <stdio.h>\n", header_path().display());
    code += "int main(void) {\n";
    for (name, _) in &numbers {
        code += &format!("  printf(\"%lld\\n\", (long long)({}));\n", name);
    }
    code += "  return 0;\n}\n";
    fs::write(&source, code).unwrap();
    let compiler = std::env::var("CC").unwrap_or_else(|_| "cc".to_string());
    let compiled =
        Command::new(compiler).arg(&source).arg("-o").arg(&program).status().expect("a compiler");
    assert!(compiled.success());
    let told = Command::new(&program).output().unwrap();
    let told = String::from_utf8(told.stdout).unwrap();
    let told: Vec<i64> = told.lines().map(|line| line.parse().unwrap()).collect();
    assert_eq!(told.len(), numbers.len());
    for ((name, here), there) in numbers.iter().zip(told) {
        assert_eq!(*here, there, "{}", name);
    }
}

/// Every name in capitals is compared above, and every structure.
#[test]
fn nothing_of_the_header_is_missing_above() {
    let text = fs::read_to_string(header_path()).unwrap();
    let compared: Vec<String> = numbers().0.into_iter().map(|(name, _)| name).collect();
    let mut count = 0;
    for word in text.split(|c: char| !c.is_alphanumeric() && c != '_') {
        if word.starts_with("ENGINE_RACE_") && !word.ends_with("_H_") {
            count += 1;
            assert!(compared.iter().any(|name| name == word), "{}", word);
        }
    }
    for rest in text.split("typedef struct ").skip(1) {
        let name = rest.split_whitespace().next().unwrap();
        if rest[name.len()..].starts_with(" {") {
            count += 1;
            assert!(compared.contains(&format!("sizeof({})", name)), "{}", name);
        }
    }
    assert!(count > 22);
}
