//! Groups and sessions that a user adds to a workload in a word: `/users/alice:weight=200,max=20ms/100ms,tasks=2`.

use std::str::FromStr;

use crate::group::path_fault;
use crate::{Group, GroupMax, ModelError, Step, Task, Time, Workload};

/// A group with its settings, or a session, and the tasks that belong to it.
///
/// ```
/// use schedlab_model::Placement;
/// let alice = Placement::group("/alice:weight=200,max=20ms/100ms,tasks=2")?;
/// assert_eq!(alice.path, "/alice");
/// assert!(Placement::group("alice").is_err());
/// # Ok::<(), schedlab_model::ModelError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Placement {
    /// The group's path, or the session's name.
    pub path: String,
    /// The group's settings; none for a session.
    pub settings: Option<Group>,
    /// The tasks that belong to it; the remaining ones where none are named.
    pub members: Vec<Members>,
}

/// Which tasks belong to a group or session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Members {
    /// So many of those that are there from the start, in the workload's order.
    Count(u32),
    /// All of this name.
    Named(String),
}

const GROUP_FORM: &str = "write PATH[:weight=N|shares=N,max=QUOTA[/PERIOD],burst=TIME,idle=1,tasks=N|NAME[+NAME…]], as in /users/alice:weight=200";
const SESSION_FORM: &str = "write NAME[:tasks=N|NAME[+NAME…]], as in tty1:tasks=2";

impl Placement {
    /// A control group.
    ///
    /// # Errors
    /// [`ModelError::Group`]: an invalid path, an unknown key, a value out of range.
    pub fn group(text: &str) -> Result<Self, ModelError> {
        let wrong = |why: String| ModelError::Group(format!("'{text}': {why}"));
        let (path, keys) = text.split_once(':').unwrap_or((text, ""));
        if let Some(fault) = path_fault(path) {
            return Err(wrong(fault));
        }
        let (mut settings, mut members, mut burst) = (Group::default(), Vec::new(), None);
        for (key, value) in pairs(keys, GROUP_FORM).map_err(wrong)? {
            match key {
                "weight" => settings.weight = Some(read(key, value).map_err(wrong)?),
                "shares" => settings.shares = Some(read(key, value).map_err(wrong)?),
                "max" => settings.max = max(value).map_err(wrong)?,
                "burst" => burst = Some(time(key, value).map_err(wrong)?),
                "idle" => settings.idle = switch(value).map_err(wrong)?,
                "tasks" => members = read_members(value).map_err(wrong)?,
                _ => {
                    return Err(wrong(format!(
                        "a group has no '{key}'; known: weight, shares, max, burst, idle, tasks"
                    )));
                }
            }
        }
        match (&mut settings.max, burst) {
            (Some(max), Some(burst)) => max.burst = burst,
            (None, Some(_)) => return Err(wrong("burst has no effect without max; set both".to_owned())),
            _ => {}
        }
        match settings.fault() {
            Some(fault) => Err(wrong(fault)),
            None => Ok(Self { path: path.to_owned(), settings: Some(settings), members }),
        }
    }

    /// A session, of which autogroup makes a group.
    ///
    /// # Errors
    /// [`ModelError::Group`]: an unknown key, or an invalid number of tasks.
    pub fn session(text: &str) -> Result<Self, ModelError> {
        let wrong = |why: String| ModelError::Group(format!("session '{text}': {why}"));
        let (name, keys) = text.split_once(':').unwrap_or((text, ""));
        if name.is_empty() {
            return Err(wrong(SESSION_FORM.to_owned()));
        }
        let mut members = Vec::new();
        for (key, value) in pairs(keys, SESSION_FORM).map_err(wrong)? {
            match key {
                "tasks" => members = read_members(value).map_err(wrong)?,
                _ => return Err(wrong(format!("a session has no '{key}'; known: tasks"))),
            }
        }
        Ok(Self { path: name.to_owned(), settings: None, members })
    }
}

impl Workload {
    /// Puts tasks into groups and sessions. Where a number of tasks divides those of one name, each part is named after its place
    /// (`hog@alice`).
    ///
    /// # Errors
    /// [`ModelError::Group`]: an unknown task, more tasks than there are, a group or session without tasks.
    pub fn with_placements(mut self, placements: &[Placement]) -> Result<Self, ModelError> {
        for placement in placements {
            let Some(settings) = &placement.settings else { continue };
            if self.groups.insert(placement.path.clone(), settings.clone()).is_some() {
                return Err(ModelError::Group(format!("'{}' is given twice", placement.path)));
            }
        }
        for kind in [true, false] {
            let chosen: Vec<&Placement> =
                placements.iter().filter(|placement| placement.settings.is_some() == kind).collect();
            self.place(&chosen)?;
        }
        Ok(self)
    }

    /// Groups, or sessions, alone.
    fn place(&mut self, placements: &[&Placement]) -> Result<(), ModelError> {
        // Which place each instance of each template has.
        let mut places: Vec<Vec<Option<usize>>> =
            self.tasks.iter().map(|task| vec![None; task.instances.max(1) as usize]).collect();
        let first: Vec<bool> = self.tasks.iter().map(|task| task.instances > 0).collect();
        let mut rest = None;
        for (number, placement) in placements.iter().enumerate() {
            let wrong = |why: String| ModelError::Group(format!("'{}': {why}", placement.path));
            for members in &placement.members {
                match members {
                    Members::Named(name) => {
                        let known = || self.tasks.iter().map(|task| task.name.as_str()).collect::<Vec<_>>().join(", ");
                        let found = self.tasks.iter().position(|task| task.name == *name);
                        let found =
                            found.ok_or_else(|| wrong(format!("there is no task '{name}'; known: {}", known())))?;
                        if places[found].iter().any(Option::is_some) {
                            return Err(wrong(format!("task '{name}' is in another one already")));
                        }
                        places[found].fill(Some(number));
                    }
                    Members::Count(count) => {
                        let free = places.iter_mut().zip(&first).filter(|(_, first)| **first);
                        let free = free.flat_map(|(places, _)| places).filter(|place| place.is_none());
                        let taken = free.take(*count as usize).map(|place| *place = Some(number)).count();
                        if taken < *count as usize {
                            return Err(wrong(format!("tasks = {count}, but only {taken} are left")));
                        }
                    }
                }
            }
            let parent = placements.iter().any(|other| other.path.starts_with(&format!("{}/", placement.path)));
            if placement.members.is_empty() && !parent && rest.replace(number).is_some() {
                return Err(wrong("another one has all tasks that are left; name its own (tasks=…)".to_owned()));
            }
        }
        if let Some(number) = rest {
            let free = places.iter_mut().zip(&first).filter(|(_, first)| **first);
            let free = free.flat_map(|(places, _)| places).filter(|place| place.is_none());
            if free.map(|place| *place = Some(number)).count() == 0 {
                return Err(ModelError::Group(format!("'{}': no tasks are left for it", placements[number].path)));
            }
        }
        self.divide(placements, &places)
    }

    /// Gives each template its place, or, where its instances have different ones, a template to each part.
    fn divide(&mut self, placements: &[&Placement], places: &[Vec<Option<usize>>]) -> Result<(), ModelError> {
        let mut tasks = Vec::with_capacity(self.tasks.len());
        for (task, places) in self.tasks.iter().zip(places) {
            let parts: Vec<&[Option<usize>]> = places.chunk_by(|one, other| one == other).collect();
            if parts.len() > 1 && self.tasks.iter().any(|other| forks(&other.steps, &task.name)) {
                let why = format!("'{}' is forked, too: its tasks cannot be divided", task.name);
                return Err(ModelError::Group(why));
            }
            for part in &parts {
                let place = part[0].map(|number| placements[number]);
                let mut own = Task { instances: task.instances.min(part.len() as u32), ..task.clone() };
                if let Some(place) = place {
                    if parts.len() > 1 {
                        own.name = format!("{}@{}", task.name, place.path.trim_start_matches('/'));
                    }
                    let belongs = if place.settings.is_some() { &mut own.taskgroup } else { &mut own.session };
                    *belongs = Some(place.path.clone());
                }
                tasks.push(own);
            }
        }
        self.tasks = tasks;
        Ok(())
    }
}

fn forks(steps: &[Step], name: &str) -> bool {
    steps.iter().any(|step| match step {
        Step::Fork { task, .. } => task == name,
        Step::Loop { steps, .. } => forks(steps, name),
        _ => false,
    })
}

/// `key=value` texts between commas, each key once.
fn pairs<'a>(text: &'a str, form: &str) -> Result<Vec<(&'a str, &'a str)>, String> {
    let mut read: Vec<(&str, &str)> = Vec::new();
    for part in text.split(',').filter(|_| !text.is_empty()) {
        let (key, value) = part.split_once('=').ok_or_else(|| format!("'{part}' is not KEY=VALUE; {form}"))?;
        if read.iter().any(|(other, _)| *other == key) {
            return Err(format!("'{key}' is given twice"));
        }
        read.push((key, value));
    }
    Ok(read)
}

fn read<T: FromStr>(key: &str, value: &str) -> Result<T, String> {
    value.parse().map_err(|_| format!("{key} is '{value}'; allowed: a whole number"))
}

fn time(key: &str, value: &str) -> Result<Time, String> {
    value.parse().map_err(|error: ModelError| format!("{key}: {error}"))
}

fn switch(value: &str) -> Result<bool, String> {
    match value {
        "0" => Ok(false),
        "1" => Ok(true),
        _ => Err(format!("idle is '{value}'; allowed: 0 or 1")),
    }
}

/// `cpu.max`: `20ms/100ms`, `20ms` of 100 ms, or `max` for no limit.
fn max(value: &str) -> Result<Option<GroupMax>, String> {
    if value == "max" {
        return Ok(None);
    }
    let (quota, period) = value.split_once('/').unwrap_or((value, "100ms"));
    Ok(Some(GroupMax { quota: time("max", quota)?, period: time("max", period)?, burst: Time::ZERO }))
}

fn read_members(value: &str) -> Result<Vec<Members>, String> {
    let member = |text: &str| match text.parse() {
        Ok(0) => Err("tasks is 0; allowed: 1 or more, or names of tasks".to_owned()),
        Ok(count) => Ok(Members::Count(count)),
        Err(_) if text.is_empty() => Err("tasks is empty; allowed: a number, or names of tasks".to_owned()),
        Err(_) => Ok(Members::Named(text.to_owned())),
    };
    value.split('+').map(member).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hogs(count: u32) -> Workload {
        let task = |name: &str, instances| Task { name: name.into(), instances, ..Task::default() };
        let tasks = vec![task("hog", count), task("pig", 1), task("child", 0)];
        Workload { name: "test".into(), tasks, ..Workload::default() }
    }

    fn placed(workload: Workload, groups: &[&str], sessions: &[&str]) -> Result<Workload, String> {
        let groups = groups.iter().map(|text| Placement::group(text));
        let placements: Result<Vec<_>, _> =
            groups.chain(sessions.iter().map(|text| Placement::session(text))).collect();
        placements.and_then(|placements| workload.with_placements(&placements)).map_err(|error| error.to_string())
    }

    fn belongs(workload: &Workload) -> Vec<(&str, u32, Option<&str>, Option<&str>)> {
        let belongs = |task| {
            let Task { name, instances, taskgroup, session, .. }: &Task = task;
            (name.as_str(), *instances, taskgroup.as_deref(), session.as_deref())
        };
        workload.tasks.iter().map(belongs).collect()
    }

    #[test]
    fn a_group_says_what_its_files_say() {
        let group = Placement::group("/a/b:shares=2048,max=30ms/50ms,burst=5ms,tasks=hog+3").unwrap();
        let [quota, period, burst] = [30, 50, 5].map(Time::from_millis);
        let settings = Group { shares: Some(2048), max: Some(GroupMax { quota, period, burst }), ..Group::default() };
        assert_eq!(group.settings, Some(settings));
        assert_eq!(group.members, [Members::Named("hog".into()), Members::Count(3)]);
        let limit = |text: &str| Placement::group(text).unwrap().settings.unwrap().max;
        assert_eq!(limit("/a:max=max"), None);
        assert_eq!(limit("/a:max=20ms").unwrap().period, Time::from_millis(100));
        assert!(Placement::group("/a:idle=1").unwrap().settings.unwrap().idle);
    }

    #[test]
    fn a_single_group_has_all_tasks_from_the_start() {
        let workload = placed(hogs(3), &["/a:weight=200"], &["tty1"]).unwrap();
        let here = (Some("/a"), Some("tty1"));
        assert_eq!(
            belongs(&workload),
            [("hog", 3, here.0, here.1), ("pig", 1, here.0, here.1), ("child", 0, None, None)]
        );
        assert_eq!(workload.groups["/a"].weight, Some(200));
    }

    #[test]
    fn numbers_divide_the_tasks_of_a_name() {
        // The first two, then names, then those that are left; a group above others has none of its own.
        let groups = ["/u:weight=50", "/u/alice:tasks=2", "/u/bob", "/c:tasks=child"];
        let workload = placed(hogs(10), &groups, &[]).unwrap();
        let expected = [
            ("hog@u/alice", 2, Some("/u/alice"), None),
            ("hog@u/bob", 8, Some("/u/bob"), None),
            ("pig", 1, Some("/u/bob"), None),
            ("child", 0, Some("/c"), None),
        ];
        assert_eq!(belongs(&workload), expected);
        assert_eq!(workload.groups.len(), 4);
    }

    #[test]
    fn what_cannot_be_is_refused() {
        for (groups, said) in [
            (&["a"][..], "a path begins with '/'"),
            (&["/a:wait=1"], "a group has no 'wait'; known: weight, shares, max, burst, idle, tasks"),
            (&["/a:weight"], "'weight' is not KEY=VALUE"),
            (&["/a:weight=x"], "a whole number"),
            (&["/a:weight=0"], "1 to 10000"),
            (&["/a:weight=1,weight=2"], "twice"),
            (&["/a:max=20"], "no unit"),
            (&["/a:max=20ms/2s"], "1ms to 1s"),
            (&["/a:burst=2ms"], "burst has no effect without max"),
            (&["/a:idle=yes"], "0 or 1"),
            (&["/a:tasks=0"], "1 or more"),
            (&["/a:tasks=cow"], "no task 'cow'; known: hog, pig, child"),
            (&["/a:tasks=5"], "tasks = 5, but only 4 are left"),
            (&["/a:tasks=hog", "/b:tasks=hog"], "task 'hog' is in another one already"),
            (&["/a", "/b"], "'/b': another one has all tasks that are left"),
            (&["/a:tasks=4", "/b"], "no tasks are left"),
            (&["/a:tasks=2", "/a"], "'/a' is given twice"),
        ] {
            let error = placed(hogs(3), groups, &[]).unwrap_err();
            assert!(error.contains(said) && !error.contains('\n'), "{groups:?}: {error}");
        }
        let error = placed(hogs(3), &[], &["tty1:weight=3"]).unwrap_err();
        assert!(error.contains("a session has no 'weight'"), "{error}");
        // A task that others fork stays one template.
        let mut workload = hogs(2);
        workload.tasks[1].steps =
            vec![Step::Loop { count: 1, steps: vec![Step::Fork { task: "hog".into(), count: 1 }] }];
        assert!(placed(workload, &["/a:tasks=1"], &[]).unwrap_err().contains("cannot be divided"));
    }
}
