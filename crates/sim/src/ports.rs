//! Requests over connections to a port: clients ask, servers take connections and answer.
//!
//! A client connects, which wakes a server (`tcp_child_process`), then writes its request and reads, for which it sleeps until the reply is
//! there. A server that took the connection before the request is there sleeps until it is. Connections that no server has taken wait in the
//! order in which they came, and so do servers (`inet_csk_accept` waits exclusively).
//!
//! Over the loopback interface a packet arrives within the call that sends it (`__dev_queue_xmit`, `process_backlog`): the other side is
//! woken before the call is over, and may preempt after it only. Both sides end the connection; the first one sends the end of it
//! and pays for its arrival (`tcp_fin`, `tcp_reset`).

use schedlab_model::EventSink;
use schedlab_program::Op;

use crate::engine::Engine;
use crate::grace_period::MEMORY;
use crate::task::Stage;
use crate::wait::NONE;

/// Where a client is in its request.
const CONNECTED: u32 = 1;
const SENT: u32 = 2;
const ANSWERED: u32 = 3;
const READ: u32 = 4;

/// Where a server is that has taken a connection.
const TAKEN: u32 = 1;

/// Where a server is that has replied.
const REPLIED: u32 = 1;

impl<S: EventSink> Engine<'_, S> {
    /// The stage of an operation on ports, and the time that it costs.
    pub(crate) fn plan_port(&self, task: u32) -> (Stage, u64) {
        let record = &self.arena.tasks[task as usize];
        let (write, read) = (self.prices.tcp_write - self.prices.tcp_write_tail, self.prices.tcp_read);
        let last = |peer: u32| usize::from(peer == NONE);
        match record.op {
            Op::Request(request) => {
                let request = self.program.requests()[request as usize];
                match record.moved {
                    READ => (Stage::Act, self.prices.tcp_client_closes[last(self.arena.objects.peer(task))]),
                    ANSWERED => (Stage::Act, read.saturating_add(self.prices.copy(request.reply))),
                    SENT => (Stage::Block, self.prices.block),
                    CONNECTED => (Stage::Act, write.saturating_add(self.prices.copy(request.bytes))),
                    _ => (Stage::Act, self.prices.tcp_connect - self.prices.tcp_connect_tail),
                }
            }
            Op::Accept { bytes, .. } if record.moved == TAKEN => {
                let client = self.arena.objects.taken(task);
                match self.arena.tasks[client as usize].moved {
                    CONNECTED => (Stage::Block, self.prices.block),
                    _ => (Stage::Act, read.saturating_add(self.prices.copy(bytes))),
                }
            }
            Op::Accept { port, .. } if !self.arena.objects.ports[port as usize].backlog.is_empty() => {
                (Stage::Act, self.prices.tcp_accept)
            }
            Op::Accept { .. } => (Stage::Block, self.prices.block),
            Op::Reply(_) if record.moved == REPLIED => {
                (Stage::Act, self.prices.tcp_server_closes[last(self.arena.objects.taken(task))])
            }
            Op::Reply(bytes) => (Stage::Act, write.saturating_add(self.prices.copy(bytes))),
            _ => (Stage::Act, 0),
        }
    }

    /// The effect of an operation on ports.
    pub(crate) fn port(&mut self, task: u32, cpu: u32) {
        let closes = self.prices.closes_connections();
        let record = &mut self.arena.tasks[task as usize];
        match record.op {
            Op::Request(_) if record.moved == READ => {
                record.done();
                self.call_rcu(cpu, MEMORY);
                let server = std::mem::replace(&mut self.arena.objects.luggage(task).peer, NONE);
                if server != NONE {
                    self.arena.objects.luggage(server).client = NONE;
                }
            }
            Op::Request(request) if record.moved == ANSWERED => {
                if closes {
                    (record.moved, record.stage) = (READ, Stage::Retry);
                } else {
                    record.done();
                }
                let counts = u64::from(!record.background);
                self.messages += counts;
                self.bytes += counts * u64::from(self.program.requests()[request as usize].reply);
            }
            Op::Request(_) if record.moved == CONNECTED => {
                (record.moved, record.stage) = (SENT, Stage::Retry);
                record.debt += self.prices.tcp_write_tail;
                let server = std::mem::replace(&mut self.arena.objects.luggage(task).server, NONE);
                if server != NONE {
                    self.wake_for(task, cpu, server, true);
                }
            }
            Op::Request(request) => {
                (record.moved, record.stage) = (CONNECTED, Stage::Retry);
                record.debt += self.prices.tcp_connect_tail;
                let port = self.program.requests()[request as usize].port as usize;
                self.arena.objects.ports[port].backlog.push_back(task);
                if let Some(server) = self.arena.objects.ports[port].servers.pop(&self.arena.links) {
                    self.wake_for(task, cpu, server, true);
                }
            }
            Op::Accept { bytes, .. } if record.moved == TAKEN => {
                record.done();
                let counts = u64::from(!record.background);
                self.messages += counts;
                self.bytes += counts * u64::from(bytes);
            }
            Op::Accept { port, .. } => {
                let Some(client) = self.arena.objects.ports[port as usize].backlog.pop_front() else {
                    // Another server was faster.
                    record.stage = Stage::Retry;
                    return;
                };
                (record.moved, record.stage) = (TAKEN, Stage::Retry);
                self.arena.objects.luggage(task).client = client;
            }
            Op::Reply(_) if record.moved == REPLIED => {
                record.done();
                self.call_rcu(cpu, MEMORY);
                let client = std::mem::replace(&mut self.arena.objects.luggage(task).client, NONE);
                if client != NONE {
                    self.arena.objects.luggage(client).peer = NONE;
                }
            }
            Op::Reply(_) => {
                if closes {
                    (record.moved, record.stage) = (REPLIED, Stage::Retry);
                } else {
                    record.done();
                }
                record.debt += self.prices.tcp_write_tail;
                let client = self.arena.objects.taken(task);
                if !closes {
                    self.arena.objects.luggage(task).client = NONE;
                }
                if client != NONE {
                    self.arena.tasks[client as usize].moved = ANSWERED;
                    let luggage = self.arena.objects.luggage(client);
                    luggage.peer = if closes { task } else { NONE };
                    if std::mem::take(&mut luggage.reads) {
                        self.wake_for(task, cpu, client, true);
                    }
                }
            }
            _ => record.done(),
        }
    }

    /// Whether a client that is about to sleep, without its reply, still has to.
    pub(crate) fn wait_reply(&mut self, task: u32) -> bool {
        let waits = self.arena.tasks[task as usize].moved != ANSWERED;
        self.arena.objects.luggage(task).reads = waits;
        waits
    }

    /// Whether a server that is about to sleep, without a connection or without its request, still has to.
    pub(crate) fn wait_port(&mut self, task: u32, port: u32) -> bool {
        if self.arena.tasks[task as usize].moved == TAKEN {
            let client = self.arena.objects.luggage(task).client;
            if self.arena.tasks[client as usize].moved != CONNECTED {
                return false;
            }
            self.arena.objects.luggage(client).server = task;
            return true;
        }
        let place = &mut self.arena.objects.ports[port as usize];
        if !place.backlog.is_empty() {
            return false;
        }
        place.servers.push_back(task, &mut self.arena.links);
        true
    }
}
