//! The building blocks of the network. None of them knows the network as a whole.

pub(crate) mod backlog;
pub(crate) mod buffer;
pub(crate) mod event;
pub(crate) mod flow;
pub(crate) mod messages;
pub(crate) mod nic;
pub(crate) mod packet;
pub(crate) mod port;
pub(crate) mod ring;
pub(crate) mod slots;
pub(crate) mod spray;
