//! Events as lines of text: the columns of `trace-cmd report -t -l`, the fields as the kernel prints them.

use std::collections::HashMap;
use std::fmt::Write;

use super::arrivals::Arrival;
use super::build::{Built, Field};
use super::continuity::Sight;
use super::format::{Common, Layout, Slot, printable};
use super::probes::STATE;

/// How an event's fields are printed. Where they stand is looked up once: there are as many events as memory holds.
enum Style {
    Switch(Box<Switch>),
    Probe(Vec<Printed>),
    SystemCall,
    Marker,
    Other(Vec<Slot>),
}

/// A probe's field.
struct Printed {
    name: String,
    slot: Slot,
    hexadecimal: bool,
    /// It is 0 if one of these is 0,
    needs: Vec<Slot>,
    /// or if this is not.
    unless: Option<Slot>,
}

struct Switch {
    previous: Slot,
    previous_pid: Slot,
    previous_priority: Slot,
    state: Slot,
    next: Slot,
    next_pid: Slot,
    next_priority: Slot,
    states: Vec<(u64, char)>,
}

struct Known {
    name: String,
    layout: Layout,
    style: Style,
    /// Of a group's state: its entity, which is 0 where there is no group.
    entity: Option<Slot>,
    /// Tasks' names that it tells, each with its pid.
    names: Vec<(Slot, Slot)>,
}

impl Known {
    fn new(name: &str, layout: Layout, style: Style) -> Self {
        let entity = layout.slot("se").filter(|_| name.starts_with(STATE)).cloned();
        let pairs: &[(&str, &str)] = match name {
            "sched_switch" => &[("prev_comm", "prev_pid"), ("next_comm", "next_pid")],
            "sched_process_fork" => &[("child_comm", "child_pid")],
            _ => &[],
        };
        let pair = |(name, pid): &(&str, &str)| Some((layout.slot(name)?.clone(), layout.slot(pid)?.clone()));
        let names = pairs.iter().filter_map(pair).collect();
        Self { name: name.to_owned(), layout, style, entity, names }
    }

    /// Whether a group's state was asked for where there is no group.
    fn says_nothing(&self, bytes: &[u8]) -> bool {
        self.entity.as_ref().is_some_and(|entity| entity.number(bytes) == Some(0))
    }
}

impl Printed {
    fn all(built: &Built, layout: &Layout) -> Option<Vec<Self>> {
        let slot = |name: &String| layout.slot(name).cloned();
        let printed = |field: &Field| {
            Some(Self {
                name: field.name.clone(),
                slot: slot(&field.name)?,
                hexadecimal: field.hexadecimal,
                needs: field.needs.iter().map(slot).collect::<Option<_>>()?,
                unless: match &field.unless {
                    Some(name) => Some(slot(name)?),
                    None => None,
                },
            })
        };
        built.fields.iter().map(printed).collect()
    }
}

impl Switch {
    fn new(layout: &Layout) -> Option<Self> {
        let slot = |name: &str| layout.slot(name).cloned();
        Some(Self {
            previous: slot("prev_comm")?,
            previous_pid: slot("prev_pid")?,
            previous_priority: slot("prev_prio")?,
            state: slot("prev_state")?,
            next: slot("next_comm")?,
            next_pid: slot("next_pid")?,
            next_priority: slot("next_prio")?,
            states: layout.states.clone(),
        })
    }

    fn print(&self, line: &mut String, bytes: &[u8]) -> Option<()> {
        let state = self.state.number(bytes)? as u64;
        let reported = self.states.iter().fold(0, |all, (bit, _)| all | bit);
        let mut letters: String =
            self.states.iter().filter(|(bit, _)| state & bit != 0).map(|(_, letter)| format!("{letter}|")).collect();
        letters.pop();
        if letters.is_empty() {
            letters.push('R');
        }
        // The bit above all reported states says that the task was preempted.
        if reported != 0 && state & (reported + 1) != 0 {
            letters.push('+');
        }
        let (previous, next) = (self.previous.text(bytes)?, self.next.text(bytes)?);
        let (pid, priority) = (self.previous_pid.number(bytes)?, self.previous_priority.number(bytes)?);
        let _ = write!(line, " prev_comm={previous} prev_pid={pid} prev_prio={priority} prev_state={letters} ==>");
        let (pid, priority) = (self.next_pid.number(bytes)?, self.next_priority.number(bytes)?);
        let _ = write!(line, " next_comm={next} next_pid={pid} next_prio={priority}");
        Some(())
    }
}

/// Prints events, and keeps the tasks' names that they tell.
pub(super) struct Renderer {
    known: HashMap<u16, Known>,
    names: HashMap<i64, String>,
    symbols: Symbols,
}

impl Renderer {
    /// Knows no events yet; `names` are those of the tasks at the beginning.
    pub(super) fn new(names: HashMap<i64, String>, symbols: Symbols) -> Self {
        Self { known: HashMap::new(), names, symbols }
    }

    /// Adds a tracepoint; false if it is not laid out as is known.
    pub(super) fn add(&mut self, name: &str, layout: Layout) -> bool {
        let style = match name {
            "sched_switch" => match Switch::new(&layout) {
                Some(switch) => Style::Switch(Box::new(switch)),
                None => return false,
            },
            "print" => Style::Marker,
            _ if name.starts_with("sys_enter_") => Style::SystemCall,
            _ => Style::Other(layout.slots.clone()),
        };
        let name = if name == "print" { "tracing_mark_write" } else { name };
        self.known.insert(layout.id, Known::new(name, layout, style));
        true
    }

    /// Adds a probe; false if it is not laid out as it was defined.
    pub(super) fn add_probe(&mut self, built: &Built, layout: Layout) -> bool {
        let Some(fields) = Printed::all(built, &layout) else { return false };
        self.known.insert(layout.id, Known::new(built.name, layout, Style::Probe(fields)));
        true
    }

    /// Writes an event's line, or an empty one for an event that says nothing; false if it is none that is known.
    pub(super) fn line(&mut self, line: &mut String, cpu: u32, time: u64, bytes: &[u8]) -> bool {
        line.clear();
        let Some(common) = Common::read(bytes) else { return false };
        let Some(known) = self.known.get(&common.id) else { return false };
        if known.says_nothing(bytes) {
            return true;
        }
        let flags = flags(common.flags, common.preempt);
        self.columns(line, i64::from(common.pid), cpu, &flags, time);
        let _ = write!(line, "{}:", known.name);
        let printed = match &known.style {
            Style::Switch(switch) => switch.print(line, bytes),
            Style::Probe(fields) => probe(line, fields, bytes),
            Style::SystemCall => system_call(line, &known.layout, bytes),
            Style::Marker => marker(line, bytes),
            Style::Other(slots) => other(line, slots, bytes, &self.symbols),
        };
        self.learn(common.id, bytes);
        line.push('\n');
        printed.is_some()
    }

    /// Writes the line of an arrival, of which perf tells: interrupts are off then.
    pub(super) fn arrival(&self, line: &mut String, cpu: u32, arrival: Arrival) {
        line.clear();
        self.columns(line, arrival.pid, cpu, "d..2.", arrival.time);
        let _ = writeln!(line, "schedlab_arrival: pid={}", arrival.pid);
    }

    /// Writes the columns before an event's name.
    fn columns(&self, line: &mut String, pid: i64, cpu: u32, flags: &str, time: u64) {
        let name = match pid {
            0 => "<idle>",
            pid => self.names.get(&pid).map_or("<...>", String::as_str),
        };
        let (seconds, nanoseconds) = (time / 1_000_000_000, time % 1_000_000_000);
        let _ = write!(line, "{name:>16}-{pid:<7} {cpu}{flags} {seconds:>5}.{nanoseconds:09}: ");
    }

    /// The task that causes an event, and the next task if it is a switch.
    pub(super) fn runs(&self, bytes: &[u8]) -> Option<Sight> {
        let common = Common::read(bytes)?;
        let known = self.known.get(&common.id)?;
        let next = if let Style::Switch(switch) = &known.style { switch.next_pid.number(bytes) } else { None };
        let own = common.flags & (HARD | SOFT | UNMASKABLE) == 0;
        Some(Sight { pid: i64::from(common.pid), own, next })
    }

    /// Names of tasks change by `exec`, and new tasks have names.
    fn learn(&mut self, id: u16, bytes: &[u8]) {
        let Some(known) = self.known.get(&id) else { return };
        for (name, pid) in &known.names {
            if let (Some(name), Some(pid)) = (name.text(bytes), pid.number(bytes))
                && pid != 0
                && self.names.get(&pid) != Some(&name)
            {
                self.names.insert(pid, name);
            }
        }
    }
}

/// Flags of an event that an interrupt caused: a hardware one, a soft one (also of one that serves it), one that cannot be masked.
const HARD: u8 = 0x08;
const SOFT: u8 = 0x10;
const UNMASKABLE: u8 = 0x40;

/// ftrace's latency columns. Source: `kernel/trace/trace_output.c`, `trace_print_lat_fmt`.
fn flags(flags: u8, preempt: u8) -> String {
    let has = |bit: u8| flags & bit != 0;
    let (irqs_off, lazy, resched) = (has(0x01), has(0x02), has(0x04));
    let (hard, soft, preempt_resched, unmaskable, bottom_off) =
        (has(HARD), has(SOFT), has(0x20), has(UNMASKABLE), has(0x80));
    let interrupts = match (irqs_off, bottom_off) {
        (true, true) => 'D',
        (true, false) => 'd',
        (false, true) => 'b',
        (false, false) => '.',
    };
    let resched = match (resched, lazy, preempt_resched) {
        (true, true, true) => 'B',
        (true, false, true) => 'N',
        (false, true, true) => 'L',
        (true, true, false) => 'b',
        (true, false, false) => 'n',
        (false, true, false) => 'l',
        (false, false, true) => 'p',
        (false, false, false) => '.',
    };
    let context = match (unmaskable, hard, soft) {
        (true, true, _) => 'Z',
        (true, false, _) => 'z',
        (false, true, true) => 'H',
        (false, true, false) => 'h',
        (false, false, true) => 's',
        (false, false, false) => '.',
    };
    let depth = |depth: u8| if depth == 0 { '.' } else { char::from_digit(u32::from(depth), 16).unwrap_or('.') };
    [interrupts, resched, context, depth(preempt & 0xf), depth(preempt >> 4)].into_iter().collect()
}

fn probe(line: &mut String, fields: &[Printed], bytes: &[u8]) -> Option<()> {
    for field in fields {
        let absent = field.needs.iter().any(|slot| slot.number(bytes) == Some(0))
            || field.unless.as_ref().is_some_and(|slot| slot.number(bytes) != Some(0));
        line.push(' ');
        line.push_str(&field.name);
        line.push('=');
        match absent {
            true if field.hexadecimal => line.push_str("0x0"),
            true => line.push('0'),
            false => field.slot.print(line, bytes, field.hexadecimal)?,
        }
    }
    Some(())
}

fn system_call(line: &mut String, layout: &Layout, bytes: &[u8]) -> Option<()> {
    let mut separator = ' ';
    for slot in layout.slots.iter().filter(|slot| slot.name != "__syscall_nr") {
        // The kernel prints every argument as a number of its full width.
        let _ = write!(line, "{}{}: {:#x}", if separator == ' ' { " " } else { ", " }, slot.name, slot.number(bytes)?);
        separator = ',';
    }
    Some(())
}

/// An address and a text that ends in a zero byte.
fn marker(line: &mut String, bytes: &[u8]) -> Option<()> {
    let text = bytes.get(16..)?;
    let end = text.iter().position(|byte| *byte == 0).unwrap_or(text.len());
    let _ = write!(line, " {}", printable(String::from_utf8_lossy(&text[..end]).trim_end()));
    Some(())
}

fn other(line: &mut String, slots: &[Slot], bytes: &[u8], symbols: &Symbols) -> Option<()> {
    for slot in slots {
        // The parent of sched_process_fork is printed as the event's task.
        let name = slot.name.strip_prefix("parent_").unwrap_or(&slot.name);
        let _ = write!(line, " {name}=");
        match slot.text(bytes) {
            Some(text) => line.push_str(&text),
            None if slot.name == "function" => line.push_str(&symbols.name(slot.number(bytes)? as u64)),
            None => slot.print(line, bytes, slot.is_pointer())?,
        }
    }
    Some(())
}

/// The kernel's functions by address.
#[derive(Debug, Clone, Default)]
pub(super) struct Symbols {
    /// In ascending order.
    functions: Vec<(u64, String)>,
}

impl Symbols {
    /// Reads the text of `/proc/kallsyms`.
    pub(super) fn parse(text: &str) -> Self {
        let function = |line: &str| {
            let mut words = line.split_whitespace();
            let address = u64::from_str_radix(words.next()?, 16).ok().filter(|address| *address != 0)?;
            matches!(words.next()?, "t" | "T" | "w" | "W").then_some(())?;
            Some((address, words.next()?.to_owned()))
        };
        let mut functions: Vec<_> = text.lines().filter_map(function).collect();
        functions.sort_by_key(|(address, _)| *address);
        Self { functions }
    }

    /// The function that begins there, or the address.
    fn name(&self, address: u64) -> String {
        match self.functions.binary_search_by_key(&address, |(known, _)| *known) {
            Ok(index) => self.functions[index].1.clone(),
            Err(_) => format!("{address:#x}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_are_the_latency_columns() {
        // From trace_entries.h: 0x01 interrupts off, 0x04 need_resched, 0x08 hard, 0x10 soft, 0x20 preempt need_resched.
        assert_eq!(flags(0x01, 2), "d..2.");
        assert_eq!(flags(0x01 | 0x04 | 0x20 | 0x08, 1), "dNh1.");
        assert_eq!(flags(0x01 | 0x08 | 0x10, 0x14), "d.H41");
        assert_eq!(flags(0x02, 0), ".l...");
    }

    #[test]
    fn functions_are_named_where_they_begin() {
        let symbols = Symbols::parse("0000000000000020 t tick_nohz_handler\n10 D data\n0000000000000000 T zero\n");
        assert_eq!(symbols.name(0x20), "tick_nohz_handler");
        assert_eq!(symbols.name(0x10), "0x10");
        assert_eq!(symbols.name(0), "0x0");
    }
}
