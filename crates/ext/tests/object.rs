//! The embedded object is what the source gives.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use libbpf_rs::ObjectBuilder;
use schedlab_ext::scheduler::OBJECT;

/// Bytes of the operations' settings: `flags`, `timeout_ms`, `exit_dump_len` and `name`.
const SETTINGS: usize = 8 + 4 + 4 + 128;

/// What an object says apart from BTF: programs with their sections and instructions, maps with all that defines them.
#[derive(Debug, PartialEq, Eq)]
struct Contents {
    programs: BTreeMap<(String, String), Vec<[u8; 8]>>,
    maps: BTreeMap<String, (u32, u32, u32, u32, Vec<u8>)>,
}

fn contents(bytes: &[u8]) -> Contents {
    let object = ObjectBuilder::default().name("scheduler").expect("a name").open_memory(bytes).expect("an object");
    let programs = object.progs().map(|program| {
        let name = (program.section().to_string_lossy().into_owned(), program.name().to_string_lossy().into_owned());
        let instruction = |one: &_| {
            // SAFETY: an instruction is eight bytes of integers.
            unsafe { std::mem::transmute_copy::<_, [u8; 8]>(one) }
        };
        (name, program.insns().iter().map(instruction).collect())
    });
    let maps = object.maps().map(|map| {
        let name = map.name().to_string_lossy().into_owned();
        let mut initial = map.initial_value().unwrap_or_default().to_vec();
        if name == "thread_fair" {
            // After the settings come libbpf's own pointers to the programs.
            initial.truncate(SETTINGS);
        }
        (name, (map.map_type() as u32, map.key_size(), map.value_size(), map.max_entries(), initial))
    });
    Contents { programs: programs.collect(), maps: maps.collect() }
}

fn sources() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("bpf")
}

/// Every `SEC("struct_ops/…")` of the source is a program of the object, and every `SEC(".maps")` a map; and there are no others.
#[test]
fn the_object_has_the_programs_and_maps_that_the_source_names() {
    let text: String = ["thread_fair.bpf.c", "service.h"]
        .iter()
        .map(|name| fs::read_to_string(sources().join(name)).expect("a source"))
        .collect();
    let sections: BTreeSet<String> = text
        .split("SEC(\"")
        .skip(1)
        .filter_map(|rest| rest.split('"').next())
        .filter(|section| section.starts_with("struct_ops"))
        .map(str::to_owned)
        .collect();
    let maps: BTreeSet<String> = text
        .split(" SEC(\".maps\")")
        .filter_map(|before| before.rsplit("} ").next())
        .filter(|name| name.chars().all(|letter| letter.is_ascii_lowercase()))
        .map(str::to_owned)
        .collect();
    let found = contents(OBJECT);
    assert_eq!(found.programs.keys().map(|(section, _)| section.clone()).collect::<BTreeSet<_>>(), sections);
    // libbpf makes maps of data sections and of the operations too.
    let named: BTreeSet<String> =
        found.maps.keys().filter(|name| !name.contains('.') && *name != "thread_fair").cloned().collect();
    assert_eq!(named, maps);
    assert!(sections.len() >= 12 && maps.len() == 6, "{sections:?} {maps:?}");
}

/// Compiled anew: the same programs, instruction by instruction, and the same maps with the same initial contents.
#[test]
fn the_object_is_what_the_source_gives() {
    let output = Path::new(env!("CARGO_TARGET_TMPDIR")).join("thread_fair.bpf.o");
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/build-ext-object");
    let done = Command::new(script).arg(&output).output().expect("the script");
    let said = String::from_utf8_lossy(&done.stderr);
    if done.status.code() == Some(2) && said.contains("is not installed") {
        eprintln!("NOT CHECKED whether the embedded object is what the source gives: {said}");
        return;
    }
    assert!(done.status.success(), "{said}");
    let built = contents(&fs::read(output).expect("an object"));
    assert!(contents(OBJECT) == built, "the embedded object is not what the source gives: run 'make ext-object'");
}
