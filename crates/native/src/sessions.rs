//! Sessions, of which autogroup makes groups (`sched_autogroup_create_attach` in `kernel/sched/autogroup.c`).
//!
//! A process begins a session (`setsid(2)`) or is born into its parent's: it can join no other. So each session of a workload has a process
//! besides its tasks, which begins it and is the parent of its first tasks.

use std::io;

use schedlab_model::{ModelError, TaskKind};
use schedlab_program::{Op, Program, TemplateId};

use crate::NativeError;
use crate::shared::Wanted;
use crate::system::{self, abnormal, check, die_with, exit_now, wait_own};
use crate::task::{Newborn, give_up, host, start_process};

/// Forked tasks must stay in their parent's session.
///
/// # Errors
/// [`NativeError::Model`] that names the session of one that would not.
pub(crate) fn check_sessions(program: &Program) -> Result<(), NativeError> {
    for (id, parent) in (0..).zip(program.templates()) {
        for op in program.operations(TemplateId(id)) {
            let Op::Fork { template, .. } = op else { continue };
            let child = program.template(template);
            if let Some(session) = child.session.filter(|_| child.session != parent.session) {
                let name = &program.sessions()[session as usize];
                let why = format!(
                    "'{name}': '{}' is forked by '{}', which does not name it; a process stays in the session it is born in",
                    child.name, parent.name
                );
                return Err(ModelError::Group(why).into());
            }
        }
    }
    Ok(())
}

/// Begins a session, starts its first tasks in it, and waits until they have ended.
pub(crate) fn lead(tasks: Vec<Newborn>) {
    let Some(first) = tasks.first() else { return };
    let (world, template) = (first.world, first.template);
    let fail = |wanted, error: &io::Error| give_up(world, wanted, error.raw_os_error().unwrap_or(libc::EIO), template);
    // SAFETY: no preconditions; a process that leads a group of processes is refused.
    if let Err(error) = check(unsafe { libc::setsid() }) {
        fail(Wanted::Session, &error);
    }
    let (threads, processes): (Vec<_>, Vec<_>) =
        tasks.into_iter().partition(|task| world.program.template(task.template).kind == TaskKind::Thread);
    for task in processes {
        if let Err((wanted, error)) = start_process(task) {
            fail(wanted, &error);
        }
    }
    if !threads.is_empty() {
        let leader = system::pid();
        // SAFETY: this process has no other threads.
        match unsafe { system::fork() } {
            Ok(0) => {
                if die_with(leader) {
                    host(threads);
                }
                exit_now(0)
            }
            Ok(_) => {}
            Err(error) => fail(Wanted::Fork, &error),
        }
    }
    while let Ok((_, status)) = wait_own(-1) {
        if abnormal(status).is_some() {
            give_up(world, Wanted::Child, status, template);
        }
    }
}
