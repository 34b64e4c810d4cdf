//! The speed of a machine's CPUs, which depends on how many others are busy.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::{ModelError, Time, Topology};

/// A speed against the nominal one, in tenths of a per cent, written as a percentage.
///
/// ```
/// use schedlab_model::Percentage;
/// let share: Percentage = "62.5%".parse()?;
/// assert_eq!((share.thousandths(), share.to_string()), (625, "62.5%".to_owned()));
/// assert!("0.625".parse::<Percentage>().is_err());
/// # Ok::<(), schedlab_model::ModelError>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Percentage(u32);

impl Percentage {
    /// The nominal speed.
    pub const WHOLE: Self = Self(1000);
    const LEAST: Self = Self(10);
    const MOST: Self = Self(10_000);

    /// In thousandths of the nominal speed.
    pub const fn thousandths(self) -> u32 {
        self.0
    }
}

impl FromStr for Percentage {
    type Err = ModelError;

    fn from_str(text: &str) -> Result<Self, ModelError> {
        let wrong = || {
            let (least, most) = (Self::LEAST, Self::MOST);
            ModelError::Machine(format!("speed: '{text}'; allowed: {least} to {most}, one decimal at most, as 62.5%"))
        };
        let number = text.strip_suffix('%').ok_or_else(wrong)?;
        let (whole, tenths) = number.split_once('.').unwrap_or((number, "0"));
        let digits =
            |part: &str, most: usize| (1..=most).contains(&part.len()) && part.bytes().all(|c| c.is_ascii_digit());
        if !digits(whole, 5) || !digits(tenths, 1) {
            return Err(wrong());
        }
        let parse = |part: &str| part.parse::<u32>().map_err(|_| wrong());
        let percentage = Self(parse(whole)? * 10 + parse(tenths)?);
        if (Self::LEAST..=Self::MOST).contains(&percentage) { Ok(percentage) } else { Err(wrong()) }
    }
}

impl fmt::Display for Percentage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0 / 10)?;
        if !self.0.is_multiple_of(10) {
            write!(f, ".{}", self.0 % 10)?;
        }
        write!(f, "%")
    }
}

impl TryFrom<String> for Percentage {
    type Error = ModelError;

    fn try_from(text: String) -> Result<Self, ModelError> {
        text.parse()
    }
}

impl From<Percentage> for String {
    fn from(percentage: Percentage) -> Self {
        percentage.to_string()
    }
}

/// The speed of CPUs: threads of a core that are busy together share it, and the fewer cores of a socket are busy, the faster their clock
/// may go. A CPU is busy while a task runs there. Without any of this the speed is always the nominal one.
///
/// As text `smt=62.5%,turbo=130%/120%/100%`: of two busy threads of a core each runs at 62.5 % of what it would alone; with one core
/// of the socket busy that runs at 130 % of the nominal speed, with two each at 120 %, with three or more at 100 %. A third busy thread
/// of a core has its own number after another `/`; the last number holds for more. A socket is a node of the [`Topology`].
///
/// As text `turns`: all CPUs have turns on one, as those of a guest that QEMU runs in one thread. With two busy each works half as fast, with three a
/// third, whatever the topology.
///
/// ```
/// use schedlab_model::{Speed, Topology};
/// let speed: Speed = "smt=62.5%,turbo=130%/120%".parse()?;
/// speed.validate(4, &"smt=2".parse()?)?;
/// // Millionths of the nominal speed: busy threads of the core, busy cores of the socket.
/// assert_eq!([speed.rate(1, 1), speed.rate(2, 1), speed.rate(2, 2)], [1_300_000, 812_500, 750_000]);
/// assert!(speed.validate(4, &Topology::default()).is_err());
/// assert_eq!("turns".parse::<Speed>()?.rate(1, 2), 500_000);
/// # Ok::<(), schedlab_model::ModelError>(())
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Form")]
pub struct Speed {
    /// Of a thread while two, three, … threads of its core are busy, as a share of what it does alone.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub smt: Vec<Percentage>,
    /// Of a core while one, two, … cores of its socket are busy.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub turbo: Vec<Percentage>,
    /// All CPUs have turns on one.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub turns: bool,
}

/// The forms in which it is written: as text, or field by field.
#[derive(Deserialize)]
#[serde(untagged)]
enum Form {
    Text(String),
    Fields(Fields),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Fields {
    #[serde(default)]
    smt: Vec<Percentage>,
    #[serde(default)]
    turbo: Vec<Percentage>,
    #[serde(default)]
    turns: bool,
}

impl TryFrom<Form> for Speed {
    type Error = ModelError;

    fn try_from(form: Form) -> Result<Self, ModelError> {
        match form {
            Form::Text(text) => text.parse(),
            Form::Fields(Fields { smt, turbo, turns }) => Ok(Self { smt, turbo, turns }),
        }
    }
}

impl Speed {
    /// The rate of a CPU that works at its nominal speed, in millionths.
    pub const NOMINAL: u32 = Percentage::WHOLE.thousandths() * Percentage::WHOLE.thousandths();

    /// How long a turn is on average where all CPUs are busy (`TURN_US` in `python/schedlab/vm/command.py`).
    pub const TURN: Time = Time::from_nanos(2_500);

    /// Whether the speed is always the nominal one.
    pub fn is_default(&self) -> bool {
        *self == Self::default()
    }

    /// Whether computing by a clock takes the same time however many CPUs are busy: every speed is the nominal one, or CPUs have turns, in which
    /// clocks go on.
    pub fn keeps_clocks(&self) -> bool {
        self.smt.iter().chain(&self.turbo).all(|part| *part == Percentage::WHOLE)
    }

    /// The speed of a busy CPU, in millionths of the nominal one, while `threads` of its core's and `cores` of its socket's are busy,
    /// itself among them. CPUs that have turns are cores of one socket.
    pub fn rate(&self, threads: u32, cores: u32) -> u32 {
        if self.turns {
            return Self::NOMINAL / cores.max(1);
        }
        let of = |numbers: &[Percentage], place: u32| {
            let place = (place as usize).min(numbers.len().saturating_sub(1));
            numbers.get(place).copied().unwrap_or(Percentage::WHOLE).thousandths()
        };
        let share = if threads < 2 { Percentage::WHOLE.thousandths() } else { of(&self.smt, threads - 2) };
        share * of(&self.turbo, cores.saturating_sub(1))
    }

    /// The least rate there may be on a machine of `cpus` CPUs, in millionths of the nominal speed.
    pub fn least_rate(&self, cpus: u32) -> u32 {
        self.rate(cpus, cpus)
    }

    /// Checks the numbers for a machine of `cpus` CPUs.
    ///
    /// # Errors
    /// [`ModelError::Machine`] for more numbers than threads or cores there are, for numbers that grow, for busy threads that
    /// are faster than a thread alone, and for numbers beside turns.
    pub fn validate(&self, cpus: u32, topology: &Topology) -> Result<(), ModelError> {
        let wrong = |why: String| Err(ModelError::Machine(format!("speed: {why}")));
        if self.turns && !(self.smt.is_empty() && self.turbo.is_empty()) {
            return wrong(format!("'{self}'; allowed: turns alone, without smt and turbo"));
        }
        let cores = topology.node.unwrap_or(cpus) / topology.smt;
        for (name, numbers, most) in [("smt", &self.smt, topology.smt - 1), ("turbo", &self.turbo, cores)] {
            if numbers.len() as u64 > u64::from(most) {
                let (many, of) = (
                    numbers.len(),
                    if name == "smt" {
                        "a core's threads in this topology"
                    } else {
                        "a socket's cores in this topology"
                    },
                );
                return wrong(format!("{name} has {many} numbers; {of} allow {most}"));
            }
            if let Some(pair) = numbers.windows(2).find(|pair| pair[0] < pair[1]) {
                return wrong(format!("{name}: {} after {}; allowed: at most the number before it", pair[1], pair[0]));
            }
        }
        match self.smt.first() {
            Some(first) if *first > Percentage::WHOLE => wrong(format!("smt = {first}; allowed: up to 100%")),
            _ => Ok(()),
        }
    }
}

impl fmt::Display for Speed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let list = |numbers: &[Percentage]| numbers.iter().map(Percentage::to_string).collect::<Vec<_>>().join("/");
        let parts = [("smt", &self.smt), ("turbo", &self.turbo)];
        let said = parts.into_iter().filter(|(_, numbers)| !numbers.is_empty());
        let numbers = said.map(|(name, numbers)| format!("{name}={}", list(numbers)));
        let said: Vec<String> = numbers.chain(self.turns.then(|| "turns".to_owned())).collect();
        write!(f, "{}", said.join(","))
    }
}

impl FromStr for Speed {
    type Err = ModelError;

    fn from_str(text: &str) -> Result<Self, ModelError> {
        let mut speed = Self::default();
        for part in text.split(',') {
            if part == "turns" {
                speed.turns = true;
                continue;
            }
            let numbers = match part.split_once('=') {
                Some(("smt", numbers)) => (&mut speed.smt, numbers),
                Some(("turbo", numbers)) => (&mut speed.turbo, numbers),
                _ => {
                    let allowed = "allowed: smt=P%, turbo=P%/P%/…, with a comma between, or turns";
                    return Err(ModelError::Machine(format!("speed: '{part}'; {allowed}")));
                }
            };
            *numbers.0 = numbers.1.split('/').map(str::parse).collect::<Result<_, _>>()?;
        }
        Ok(speed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_number_holds_for_more() {
        let speed: Speed = "smt=60%/50%,turbo=150%/125%".parse().unwrap();
        // 150 % of one core; 60 % of it for each of two threads; 50 % of 125 % for each of three, and of eight.
        let rates = [speed.rate(1, 1), speed.rate(2, 1), speed.rate(3, 2), speed.rate(8, 9)];
        assert_eq!(rates, [1_500_000, 900_000, 625_000, 625_000]);
        assert_eq!((Speed::default().rate(4, 4), speed.least_rate(8)), (Speed::NOMINAL, 625_000));
    }

    #[test]
    fn cpus_that_have_turns_share_one() {
        let speed: Speed = "turns".parse().unwrap();
        assert_eq!([speed.rate(1, 1), speed.rate(1, 3), speed.least_rate(8)], [1_000_000, 333_333, 125_000]);
        assert_eq!((speed.to_string(), speed.is_default(), speed.keeps_clocks()), ("turns".to_owned(), false, true));
        assert_eq!(speed, serde_json::from_str(r#"{"turns": true}"#).unwrap());
    }

    #[test]
    fn both_forms_say_the_same_and_text_comes_back() {
        let text = "smt=62.5%,turbo=130%/120%/100%";
        let fields = r#"{"smt": ["62.5%"], "turbo": ["130%", "120%", "100%"]}"#;
        let speed: Speed = serde_json::from_str(fields).unwrap();
        assert_eq!(speed, serde_json::from_str(&format!("{text:?}")).unwrap());
        assert_eq!(
            (speed.to_string(), serde_json::from_str(&serde_json::to_string(&speed).unwrap()).unwrap()),
            (text.to_owned(), speed)
        );
    }

    #[test]
    fn impossible_ones_are_refused() {
        let two = Topology { smt: 2, ..Topology::default() };
        for (text, said) in [
            ("smt=60%/50%", "smt has 2 numbers; a core's threads in this topology allow 1"),
            ("turbo=130%/120%/110%", "turbo has 3 numbers; a socket's cores in this topology allow 2"),
            ("turbo=110%/120%", "turbo: 120% after 110%"),
            ("smt=101%", "smt = 101%; allowed: up to 100%"),
            ("turns,turbo=90%", "'turbo=90%,turns'; allowed: turns alone, without smt and turbo"),
        ] {
            let error = text.parse::<Speed>().unwrap().validate(4, &two).unwrap_err().to_string();
            assert!(error.contains(said), "{error}");
        }
        for text in [
            "smt",
            "smt=",
            "smt=62",
            "turbo=0.9%",
            "turbo=1000.1%",
            "turbo=1.25%",
            "speed=1%",
            "",
            "turbo=999999999999%",
            "smt=.5%",
        ] {
            assert!(text.parse::<Speed>().is_err(), "{text}");
        }
    }
}
