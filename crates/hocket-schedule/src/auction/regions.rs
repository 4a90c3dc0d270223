//! The regions of a cluster by number: its servers, then its racks, then the whole.

use std::ops::Range;

/// The smallest unit that contains all GPUs of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Span {
    /// One server.
    Server,
    /// Several servers of one rack.
    Rack,
    /// Several racks.
    Racks,
}

impl Span {
    /// Widest first.
    pub(crate) const FALLING: [Self; 3] = [Self::Racks, Self::Rack, Self::Server];
}

/// The tree of servers, racks and the cluster. Rack r is the region after the servers and r racks; the whole cluster
/// is the last region.
#[derive(Clone, Debug)]
pub struct Regions {
    /// By GPU.
    server_of: Vec<usize>,
    /// By server, ascending.
    gpus_in: Vec<Vec<usize>>,
    /// By rack.
    servers_in: Vec<Vec<usize>>,
    /// By region: itself and the regions that contain it, innermost first. A region that is no server comes up to three
    /// times.
    around: Vec<[usize; 3]>,
}

impl Regions {
    /// The regions of GPUs in these servers, which are in these racks.
    pub fn new(server_of: Vec<usize>, rack_of: &[usize]) -> Self {
        let servers = rack_of.len();
        let racks = rack_of.iter().max().map_or(0, |last| last + 1);
        let whole = servers + racks;
        let mut gpus_in = vec![Vec::new(); servers];
        for (gpu, server) in server_of.iter().enumerate() {
            gpus_in[*server].push(gpu);
        }
        let mut servers_in = vec![Vec::new(); racks];
        for (server, rack) in rack_of.iter().enumerate() {
            servers_in[*rack].push(server);
        }
        let of_servers = rack_of.iter().enumerate();
        let of_servers = of_servers.map(|(server, rack)| [server, servers + rack, whole]);
        let of_racks = (servers..whole).map(|rack| [rack, rack, whole]);
        let around = of_servers.chain(of_racks).chain([[whole; 3]]).collect();
        Self { server_of, gpus_in, servers_in, around }
    }

    /// The number of servers, which is also that of the first rack.
    pub fn servers(&self) -> usize {
        self.whole() - self.servers_in.len()
    }

    /// The last region, which is the whole cluster.
    pub fn whole(&self) -> usize {
        self.around.len() - 1
    }

    /// The number of GPUs.
    pub(crate) fn gpus(&self) -> usize {
        self.server_of.len()
    }

    /// The GPUs of a server, ascending.
    pub(crate) fn gpus_in(&self, server: usize) -> &[usize] {
        &self.gpus_in[server]
    }

    /// The server of a GPU.
    pub(crate) fn server_of(&self, gpu: usize) -> usize {
        self.server_of[gpu]
    }

    /// The servers of the rack that is region `rack`.
    pub(crate) fn servers_in(&self, rack: usize) -> &[usize] {
        &self.servers_in[rack - self.servers()]
    }

    /// A region and the regions that contain it, innermost first.
    pub(crate) fn around(&self, region: usize) -> &[usize] {
        let first = usize::from(region >= self.servers()) + usize::from(region == self.whole());
        &self.around[region][first..]
    }

    /// The regions that contain a GPU, innermost first.
    pub(crate) fn of(&self, gpu: usize) -> &[usize] {
        &self.around[self.server_of[gpu]]
    }

    /// The span of `gpus`.
    pub(crate) fn span(&self, gpus: &[usize]) -> Span {
        let Some((first, others)) = gpus.split_first() else {
            return Span::Server;
        };
        let [server, rack, _] = self.around[self.server_of[*first]];
        let mut span = Span::Server;
        for gpu in others {
            let [other, others_rack, _] = self.around[self.server_of[*gpu]];
            if others_rack != rack {
                return Span::Racks;
            }
            if other != server {
                span = Span::Rack;
            }
        }
        span
    }

    /// The regions within which a job that has `gpus`, possibly none, spans no more than `span`; none if `gpus`
    /// themselves span more.
    pub fn at(&self, span: Span, gpus: &[usize]) -> Range<usize> {
        let (servers, whole) = (self.servers(), self.whole());
        match (span, gpus.first()) {
            (Span::Racks, _) => whole..whole + 1,
            (Span::Rack, None) => servers..whole,
            (Span::Server, None) => 0..servers,
            (_, Some(_)) if self.span(gpus) > span => 0..0,
            (_, Some(gpu)) => {
                let region = self.around[self.server_of[*gpu]][span as usize];
                region..region + 1
            }
        }
    }
}
