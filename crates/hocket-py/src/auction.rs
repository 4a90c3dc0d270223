//! Auctions of Themis, compact places for jobs, and placements that are as fair.

use hocket_schedule::Twister;
use hocket_schedule::auction::{
    Bid, Bidder, Offer, Place, Record, Regions, Rules, Span, hold_auction,
};
use hocket_schedule::exchange::{Exchange, Mover};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList, PyTuple};

/// As [`Bidder`], which documents the fields.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct BidderRow<'py> {
    sizes: Vec<usize>,
    most: usize,
    /// Little-endian.
    rho: Bound<'py, PyBytes>,
    rho_in_place: f64,
    rho_waiting: f64,
    former: Vec<usize>,
    held: Vec<usize>,
}

impl From<BidderRow<'_>> for Bidder {
    fn from(row: BidderRow<'_>) -> Self {
        let BidderRow { sizes, most, rho, rho_in_place, rho_waiting, former, held } = row;
        let (values, rest) = rho.as_bytes().as_chunks::<8>();
        let values: Vec<f64> = values.iter().copied().map(f64::from_le_bytes).collect();
        let (rho, rest_of_row) = values.as_chunks::<3>();
        assert!(
            rest.is_empty() && rest_of_row.is_empty() && rho.len() == sizes.len(),
            "a row of three numbers for each size"
        );
        Self { sizes, most, rho: rho.to_vec(), rho_in_place, rho_waiting, former, held }
    }
}

/// As [`Mover`], which documents the fields.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct MoverRow {
    own: Vec<usize>,
    running: Vec<usize>,
    former: Vec<usize>,
    fixed: Vec<usize>,
    stay: usize,
    fresh: usize,
    widest: usize,
}

impl From<MoverRow> for Mover {
    fn from(row: MoverRow) -> Self {
        let MoverRow { own, running, former, fixed, stay, fresh, widest } = row;
        let widest = [Span::Server, Span::Rack, Span::Racks][widest];
        Self { own, running, former, fixed, stay, fresh, widest }
    }
}

/// Placements as GPUs by mover, and the state of the random numbers after them.
type Exchanged<'py> = (Vec<Vec<Bound<'py, PyTuple>>>, Vec<u32>);

/// A bid: its workers, the span that it allows or none if it is in place, and ρ.
type BidRow = (usize, Option<usize>, f64);

/// As [`Record`], which documents the fields, with the GPUs that each bidder holds after the auction.
#[derive(IntoPyObject)]
pub(crate) struct AuctionRecord<'py> {
    held: Vec<Bound<'py, PyTuple>>,
    tables: Vec<Vec<BidRow>>,
    won: Vec<(usize, usize, f64)>,
    leftovers: Vec<(usize, usize)>,
    cut_short: bool,
}

/// As [`Regions`].
#[pyclass(name = "Regions", module = "hocket._hocket", frozen)]
pub(crate) struct PyRegions(Regions);

#[pymethods]
impl PyRegions {
    #[new]
    fn new(server_of: Vec<usize>, rack_of: Vec<usize>) -> Self {
        Self(Regions::new(server_of, &rack_of))
    }

    /// Compact places for jobs of these sizes, one after another, out of `gpus`: as many as fit. Servers and racks of the
    /// GPUs `near` come first.
    #[pyo3(signature = (gpus, sizes, *, near=Vec::new()))]
    fn packed<'py>(
        &self,
        py: Python<'py>,
        gpus: Vec<usize>,
        sizes: Vec<usize>,
        near: Vec<usize>,
    ) -> PyResult<Vec<Bound<'py, PyTuple>>> {
        let mut offer = Offer::new(&self.0, &gpus, &[]);
        let mut places = Vec::new();
        for size in sizes {
            if size > offer.total() {
                break;
            }
            let place = offer.packed(size, self.0.whole(), &near, &[]);
            offer.remove(&place);
            places.push(PyTuple::new(py, place)?);
        }
        Ok(places)
    }

    /// As [`Exchange::sample`], with random numbers from a state of [`Twister`].
    fn exchanged<'py>(
        &self,
        py: Python<'py>,
        movers: Vec<MoverRow>,
        spare: Vec<usize>,
        staying: Vec<Vec<usize>>,
        count: usize,
        random: Vec<u32>,
    ) -> PyResult<Exchanged<'py>> {
        let movers = movers.into_iter().map(Mover::from).collect();
        let mut random = Twister::new(random);
        let found = Exchange::new(&self.0, movers, &spare, &staying).sample(count, &mut random);
        let placement =
            |gpus: &Vec<Vec<usize>>| gpus.iter().map(|each| PyTuple::new(py, each)).collect();
        let found = found.iter().map(placement).collect::<PyResult<_>>()?;
        Ok((found, random.into_state()))
    }

    /// Auctions the GPUs `offered`, of which jobs may reclaim those that are also `claimed`. `shuffle` shuffles a
    /// list in place.
    #[expect(clippy::too_many_arguments, reason = "each is a keyword in Python")]
    #[pyo3(signature = (bidders, *, offered, claimed, visible, hidden_payment, shuffle))]
    fn auction<'py>(
        &self,
        py: Python<'py>,
        bidders: Vec<BidderRow<'py>>,
        offered: Vec<usize>,
        claimed: Vec<usize>,
        visible: usize,
        hidden_payment: bool,
        shuffle: Option<Bound<'py, PyAny>>,
    ) -> PyResult<AuctionRecord<'py>> {
        let mut bidders: Vec<Bidder> = bidders.into_iter().map(Bidder::from).collect();
        let mut offer = Offer::new(&self.0, &offered, &claimed);
        let rules = Rules { visible, hidden_payment };
        let Some(shuffle) = shuffle else {
            let record = hold_auction(&mut bidders, &mut offer, rules, None);
            return plain(py, &bidders, record);
        };
        let mut failed = None;
        let mut in_place = |gpus: &mut Vec<usize>| match shuffled(&shuffle, gpus) {
            Ok(order) => *gpus = order,
            Err(error) => failed = Some(error),
        };
        let record = hold_auction(&mut bidders, &mut offer, rules, Some(&mut in_place));
        failed.map_or_else(|| plain(py, &bidders, record), Err)
    }
}

fn shuffled(shuffle: &Bound<'_, PyAny>, gpus: &[usize]) -> PyResult<Vec<usize>> {
    let list = PyList::new(shuffle.py(), gpus)?;
    shuffle.call1((&list,))?;
    list.extract()
}

fn plain<'py>(py: Python<'py>, bidders: &[Bidder], record: Record) -> PyResult<AuctionRecord<'py>> {
    let Record { tables, won, leftovers, cut_short } = record;
    let held =
        bidders.iter().map(|bidder| PyTuple::new(py, &bidder.held)).collect::<Result<_, _>>()?;
    let tables = tables.iter().map(|table| table.iter().map(bid_row).collect()).collect();
    Ok(AuctionRecord { held, tables, won, leftovers, cut_short })
}

fn bid_row(bid: &Bid) -> BidRow {
    let span = match bid.place {
        Place::Within(span, _) => Some(span as usize),
        Place::InPlace(_) => None,
    };
    (bid.workers, span, bid.rho)
}
