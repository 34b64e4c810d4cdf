//! Where the kernel's structures have their members, from its own BTF: paths become the fetch arguments of kprobes.

use std::path::Path;

use btf_rs::{Btf, BtfType, Struct, Type};

/// The registers of a function's first arguments on x86-64, as kprobes name them (System V ABI, 3.2.3).
const REGISTERS: [&str; 6] = ["%di", "%si", "%dx", "%cx", "%r8", "%r9"];

/// The types of the running kernel.
pub(super) struct Types {
    btf: Btf,
}

/// What a path comes to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Fetch {
    /// The fetch argument with its type, as `+16(%di):u64`.
    pub(super) text: String,
    /// Whether it is an address.
    pub(super) pointer: bool,
    /// Fetch arguments of pointers on the way; a null among them means that there is no value.
    pub(super) guards: Vec<String>,
}

/// Where a path has come to.
enum Place {
    /// In a register, or behind the fetch argument that loads it.
    Value(String),
    /// In memory: an offset in bits from where the value points.
    Memory(String, i64),
}

/// A place and its type there.
struct At {
    place: Place,
    kind: Type,
    /// Bits of a bit-field.
    bits: Option<u32>,
}

impl Types {
    /// Reads `/sys/kernel/btf/vmlinux` or a file like it; the error says why that cannot be.
    pub(super) fn read(path: &Path) -> Result<Self, String> {
        let bytes = std::fs::read(path).map_err(|error| format!("{}: {error}", path.display()))?;
        let btf = Btf::from_bytes(&bytes).map_err(|error| format!("{}: {error}", path.display()))?;
        Ok(Self { btf })
    }

    /// Whether a structure has a member.
    pub(super) fn has(&self, structure: &str, member: &str) -> bool {
        self.structure(structure).is_some_and(|found| self.member(&found, member).is_some())
    }

    /// The fetch argument for `path` at the entry of `function`.
    ///
    /// A path begins with a parameter's name and goes on with members: `rq.curr.pid`; whether a member is a pointer or a part is the
    /// kernel's affair. `@TYPE:MEMBER` goes from a part to what it is a part of (`container_of`), `?` marks a pointer that may be null,
    /// and a last `#` asks for the unsigned number in hexadecimal.
    pub(super) fn fetch(&self, function: &str, path: &str) -> Option<Fetch> {
        let (path, hexadecimal) = path.strip_suffix('#').map_or((path, false), |path| (path, true));
        let mut words = path.split('.');
        let mut at = self.parameter(function, words.next()?)?;
        let mut guards = Vec::new();
        for (index, word) in path.split('.').enumerate() {
            // A word: NAME[?][@TYPE:MEMBER]…
            let (name, containers) = word.split_once('@').map_or((word, None), |(name, rest)| (name, Some(rest)));
            let (name, nullable) = name.strip_suffix('?').map_or((name, false), |name| (name, true));
            if index > 0 {
                at = self.step(at, name)?;
            }
            if nullable {
                guards.push(format!("{}:x64", load(&at.place)?));
            }
            for container in containers.into_iter().flat_map(|rest| rest.split('@')) {
                let (structure, member) = container.split_once(':')?;
                at = self.contain(at, structure, member)?;
            }
        }
        let (kind, pointer) = self.kind(&at, hexadecimal)?;
        let text = match &at.place {
            Place::Value(value) => value.clone(),
            Place::Memory(base, bits) => {
                let size = if at.bits.is_some() { 32 } else { 8 };
                format!("{:+}({base})", bits.div_euclid(size) * (size / 8))
            }
        };
        Some(Fetch { text: format!("{text}:{kind}"), pointer, guards })
    }

    /// The first argument of `function` that is called `name`.
    fn parameter(&self, function: &str, name: &str) -> Option<At> {
        let name = name.split(['?', '@']).next()?;
        let found = self.btf.resolve_types_by_name(function).ok()?;
        let function =
            found.iter().find_map(|kind| if let Type::Func(function) = kind { Some(function) } else { None })?;
        let Type::FuncProto(prototype) = self.btf.resolve_chained_type(function).ok()? else { return None };
        let index = prototype.parameters.iter().position(|known| self.is_called(known, name))?;
        let kind = self.plain(self.btf.resolve_chained_type(&prototype.parameters[index]).ok()?)?;
        Some(At { place: Place::Value((*REGISTERS.get(index)?).to_owned()), kind, bits: None })
    }

    fn is_called(&self, named: &dyn BtfType, name: &str) -> bool {
        self.btf.resolve_name(named).is_ok_and(|found| found == name)
    }

    /// The type without its names and qualifiers.
    fn plain(&self, mut kind: Type) -> Option<Type> {
        loop {
            kind = match &kind {
                Type::Typedef(_) | Type::Volatile(_) | Type::Const(_) | Type::Restrict(_) | Type::TypeTag(_) => {
                    self.btf.resolve_chained_type(kind.as_btf_type()?).ok()?
                }
                _ => return Some(kind),
            }
        }
    }

    fn structure(&self, name: &str) -> Option<Struct> {
        let found = self.btf.resolve_types_by_name(name).ok()?;
        found.into_iter().find_map(|kind| match kind {
            Type::Struct(found) | Type::Union(found) if !found.members.is_empty() => Some(found),
            _ => None,
        })
    }

    /// A member's offset in bits, its type and its bits if it is a bit-field; members of nameless parts count as the whole's.
    fn member(&self, structure: &Struct, name: &str) -> Option<(i64, Type, Option<u32>)> {
        for member in &structure.members {
            let offset = i64::from(member.bit_offset());
            let found = self.btf.resolve_name(member).unwrap_or_default();
            if found == name {
                let kind = self.plain(self.btf.resolve_chained_type(member).ok()?)?;
                return Some((offset, kind, member.bitfield_size().filter(|bits| *bits > 0)));
            }
            if found.is_empty()
                && let Some(Type::Struct(part) | Type::Union(part)) =
                    self.btf.resolve_chained_type(member).ok().and_then(|kind| self.plain(kind))
                && let Some((inner, kind, bits)) = self.member(&part, name)
            {
                return Some((offset + inner, kind, bits));
            }
        }
        None
    }

    /// What `at` points to, or what it is.
    fn target(&self, at: At) -> Option<(Place, Type)> {
        match at.kind {
            Type::Ptr(pointer) => {
                let kind = self.plain(self.btf.resolve_chained_type(&pointer).ok()?)?;
                // A declaration alone says nothing of the members.
                let kind = match kind {
                    Type::Fwd(forward) => Type::Struct(self.structure(&self.btf.resolve_name(&forward).ok()?)?),
                    kind => kind,
                };
                Some((Place::Memory(load(&at.place)?, 0), kind))
            }
            kind => Some((at.place, kind)),
        }
    }

    fn step(&self, at: At, name: &str) -> Option<At> {
        let (place, kind) = self.target(at)?;
        let (Type::Struct(structure) | Type::Union(structure)) = kind else { return None };
        let (offset, kind, bits) = self.member(&structure, name)?;
        let Place::Memory(base, before) = place else { return None };
        Some(At { place: Place::Memory(base, before + offset), kind, bits })
    }

    fn contain(&self, at: At, structure: &str, member: &str) -> Option<At> {
        let (place, _) = self.target(at)?;
        let structure = self.structure(structure)?;
        let (offset, _, _) = self.member(&structure, member)?;
        let Place::Memory(base, before) = place else { return None };
        Some(At { place: Place::Memory(base, before - offset), kind: Type::Struct(structure), bits: None })
    }

    /// The kprobe's name of a type, and whether it is an address.
    fn kind(&self, at: &At, hexadecimal: bool) -> Option<(String, bool)> {
        if let (Some(bits), Place::Memory(_, offset)) = (at.bits, &at.place) {
            return Some((format!("b{bits}@{}/32", offset.rem_euclid(32)), false));
        }
        let (signed, size) = match &at.kind {
            Type::Ptr(_) => return Some(("x64".to_owned(), true)),
            Type::Int(int) => (int.is_signed() && !int.is_bool(), int.size()),
            Type::Enum(kind) => (kind.is_signed(), kind.size()),
            _ => return None,
        };
        let letter = if hexadecimal {
            'x'
        } else if signed {
            's'
        } else {
            'u'
        };
        matches!(size, 1 | 2 | 4 | 8).then(|| (format!("{letter}{}", size * 8), false))
    }
}

/// The fetch argument of the value at a place.
fn load(place: &Place) -> Option<String> {
    match place {
        Place::Value(value) => Some(value.clone()),
        Place::Memory(base, bits) => (bits % 8 == 0).then(|| format!("{:+}({base})", bits / 8)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// BTF as `Documentation/bpf/btf.rst` lays it out: a header, types, names.
    #[derive(Default)]
    struct Writer {
        types: Vec<u8>,
        names: Vec<u8>,
    }

    impl Writer {
        fn words(&mut self, words: &[u32]) {
            words.iter().for_each(|word| self.types.extend(word.to_le_bytes()));
        }

        /// The place of a name; none for nameless things.
        fn name(&mut self, name: &str) -> u32 {
            if self.names.is_empty() {
                self.names.push(0);
            }
            if name.is_empty() {
                return 0;
            }
            let place = self.names.len() as u32;
            self.names.extend(name.bytes().chain([0]));
            place
        }

        /// A type's head: its name, its kind with flag and number of parts, and its size or the type it leads to.
        fn kind(&mut self, name: &str, kind: u32, flag: u32, parts: u32, size: u32) {
            let name = self.name(name);
            self.words(&[name, flag << 31 | kind << 24 | parts, size]);
        }

        /// A member: its name, its type, and its offset or, with bits, size and offset of a bit-field.
        fn member(&mut self, name: &str, kind: u32, bits: u32, offset: u32) {
            let name = self.name(name);
            self.words(&[name, kind, bits << 24 | offset]);
        }

        fn finish(self) -> Types {
            let (types, names) = (self.types.len() as u32, self.names.len() as u32);
            let mut bytes: Vec<u8> = [0xeb9f_u16.to_le_bytes(), [1, 0]].concat();
            [24, 0, types, types, names].iter().for_each(|word: &u32| bytes.extend(word.to_le_bytes()));
            bytes.extend(self.types);
            bytes.extend(self.names);
            Types { btf: Btf::from_bytes(&bytes).unwrap() }
        }
    }

    /// `struct part { u64 time; int:3 pad; int flag:2; }`, `struct whole { struct whole *up; union { u32 id; }; struct part part; }`,
    /// `f(struct whole *w, int n)`, `g(struct part *p)`.
    fn types() -> Types {
        let mut writer = Writer::default();
        writer.kind("int", 1, 0, 0, 4); // 1
        writer.words(&[1 << 24 | 32]);
        writer.kind("u32", 1, 0, 0, 4); // 2
        writer.words(&[32]);
        writer.kind("u64", 1, 0, 0, 8); // 3
        writer.words(&[64]);
        writer.kind("part", 4, 1, 3, 16); // 4
        writer.member("time", 3, 0, 0);
        writer.member("pad", 2, 3, 64);
        writer.member("flag", 2, 2, 67);
        writer.kind("", 5, 0, 1, 4); // 5
        writer.member("id", 2, 0, 0);
        writer.kind("whole", 4, 0, 3, 32); // 6
        writer.member("up", 8, 0, 0);
        writer.member("", 5, 0, 64);
        writer.member("part", 4, 0, 128);
        writer.kind("", 10, 0, 0, 6); // 7: const whole
        writer.kind("", 2, 0, 0, 7); // 8: pointer to it
        writer.kind("", 13, 0, 2, 0); // 9: a prototype
        let (w, n) = (writer.name("w"), writer.name("n"));
        writer.words(&[w, 8, n, 1]);
        writer.kind("f", 12, 0, 0, 9); // 10
        writer.kind("", 2, 0, 0, 4); // 11: pointer to part
        writer.kind("", 13, 0, 1, 0); // 12
        let p = writer.name("p");
        writer.words(&[p, 11]);
        writer.kind("g", 12, 0, 0, 12); // 13
        writer.finish()
    }

    #[test]
    fn paths_become_fetch_arguments() {
        let types = types();
        let text = |function, path| types.fetch(function, path).map(|fetch| fetch.text);
        let is = |function, path, expected: &str| assert_eq!(text(function, path).as_deref(), Some(expected), "{path}");
        is("f", "n", "%si:s32");
        is("f", "n#", "%si:x32");
        is("f", "w", "%di:x64");
        is("f", "w.id", "+8(%di):u32");
        // The part stands at 16, its time at its beginning, its flag from bit 3 on of the word at 8.
        is("f", "w.part.time", "+16(%di):u64");
        is("f", "w.part.flag", "+24(%di):b2@3/32");
        is("f", "w.up.up.part.time", "+16(+0(+0(%di))):u64");
        // From the part to the whole: 16 bytes back, and 8 on to the number.
        is("g", "p@whole:part.id", "-8(%di):u32");
        is("g", "p@whole:part.up", "-16(%di):x64");
        for (function, path) in [("f", "w.none"), ("f", "x"), ("f", "n.id"), ("none", "w"), ("f", "w.part")] {
            assert_eq!(text(function, path), None, "{function} {path}");
        }
    }

    #[test]
    fn pointers_that_may_be_null_are_fetched_too() {
        let fetch = types().fetch("f", "w.up?.up?.id").unwrap();
        assert_eq!(fetch.text, "+8(+0(+0(%di))):u32");
        assert_eq!(fetch.guards, ["+0(%di):x64", "+0(+0(%di)):x64"]);
        assert!(!fetch.pointer && types().fetch("f", "w.up").unwrap().pointer);
        assert!(types().has("whole", "id") && !types().has("whole", "time"));
    }
}
