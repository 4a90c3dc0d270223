//! The proven optimum over continuous shifts, from the edges of the phases alone.
//!
//! Excess as a function of one group's shift is piecewise linear. Where a rise meets a rise or a
//! fall meets a fall, its slope can only fall (excess is convex in demand), so no strict minimum
//! lies there; minima lie at contacts, where one job's rise meets another's fall. Some optimum
//! therefore connects all jobs by contacts into one tree: a group without a contact can be moved,
//! at no cost, until it has one. Growing the tree job by job reaches that optimum; branch and bound
//! prunes the search.

use std::cell::OnceCell;
use std::collections::BTreeSet;
use std::rc::Rc;

use crate::arcs::Arc;
use crate::error::CompatError;
use crate::problem::Problem;
use crate::search::{Budget, SearchOutcome};

/// With more, no search of the tree of contacts would end; and `Partial::tried` has one bit for
/// each job.
pub(crate) const MOST_JOBS: usize = 64;

/// A piecewise constant function on the circle: demand − capacity from each position to the next.
struct Surplus {
    /// The first is 0.
    positions: Vec<u64>,
    values: Vec<i128>,
    /// By job: its bands on top of this surplus. Most placements leave most resources as they are, so
    /// partial placements share a surplus, and with it the bands that one of them has computed.
    bands: Vec<OnceCell<Vec<Band>>>,
}

struct Search<'a, 'b> {
    problem: &'a Problem,
    budget: &'a mut Budget<'b>,
    /// By job: the nearest earlier job with the same arcs and period.
    twins: Vec<Option<usize>>,
    /// No shifts have a lower objective.
    load: u128,
    best: u128,
    best_shifts: Vec<u64>,
}

/// A partial placement: the shifts of the jobs placed so far, and what is excluded for the others.
#[derive(Clone)]
struct Partial {
    shifts: Vec<Option<u64>>,
    /// By resource.
    surplus: Vec<Rc<Surplus>>,
    /// By unplaced job: a bit for each placed job with which earlier branches have tried all
    /// contacts.
    tried: Vec<u64>,
    /// By job: a lower bound on its growth.
    least: Vec<u128>,
    objective: u128,
}

/// The shifts at which an unplaced job could be added, and its least growth among them.
struct Choices {
    job: usize,
    contacts: Vec<Contact>,
    /// Without contacts, the growth at every shift.
    least: u128,
}

/// A shift of a job at which its rise meets a placed job's fall, or its fall a placed job's rise.
/// Ordered by growth, then shift.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Contact {
    /// The growth of the objective if the job is placed there.
    growth: u128,
    shift: u64,
    /// Whether one of these placed jobs has not been tried.
    allowed: bool,
}

/// An arc of a job on the unified circle.
#[derive(Clone, Copy, Debug)]
struct TurnedArc {
    /// Below the perimeter.
    start: u64,
    /// Possibly past it.
    end: u64,
    height: u64,
}

/// The best shifts, in ticks by job.
///
/// # Errors
/// If there are more than [`MOST_JOBS`] jobs.
pub(crate) fn solve(
    problem: &Problem,
    budget: &mut Budget<'_>,
) -> Result<SearchOutcome, CompatError> {
    let mut search = Search::new(problem, budget)?;
    search.first_solutions();
    // Shifting all jobs together changes nothing, so the first job can stay at 0.
    let start = Partial::first_placed(problem);
    let open = search.grow(&start);
    centre(problem, &mut search.best_shifts);
    Ok(SearchOutcome {
        objective: search.best as f64,
        bound: open.map_or(search.best, |open| open.max(search.load).min(search.best)) as f64,
        proven: open.is_none(),
        shifts: search.best_shifts,
    })
}

/// An objective that no shifts undercut, found without looking for the middle of equally good shifts.
///
/// # Errors
/// As [`solve`].
pub(crate) fn bound(problem: &Problem, budget: &mut Budget<'_>) -> Result<f64, CompatError> {
    let mut search = Search::new(problem, budget)?;
    let start = Partial::first_placed(problem);
    let greedy =
        (1..problem.jobs()).fold(start.clone(), |partial, job| search.with_best(&partial, job));
    search.keep_if_better(&greedy);
    let open = search.grow(&start);
    Ok(open.map_or(search.best, |open| open.min(search.best)) as f64)
}

/// `shifts` in ticks that are `parts` times as long as those of `problem`, converted to its ticks,
/// with each job but the first moved to the middle of its equally good shifts.
pub(crate) fn centred(problem: &Problem, shifts: &[u64], parts: u64) -> Vec<u64> {
    let mut shifts: Vec<u64> = shifts.iter().map(|shift| shift * parts).collect();
    centre(problem, &mut shifts);
    shifts
}

/// Moves each job but the first to the middle of its equally good shifts while the
/// others stay, so that drift to either side costs nothing for as long as possible.
fn centre(problem: &Problem, shifts: &mut [u64]) {
    let placed = shifts.iter().enumerate();
    let mut all = placed
        .fold(Partial::empty(problem), |all, (job, shift)| all.with_job(problem, job, *shift));
    for (job, shift) in shifts.iter_mut().enumerate().skip(1) {
        let others = all.without(problem, job);
        *shift = middle_of_plateau(problem, &others, job, *shift);
        all = others.with_job(problem, job, *shift);
    }
}

impl<'a, 'b> Search<'a, 'b> {
    fn new(problem: &'a Problem, budget: &'a mut Budget<'b>) -> Result<Self, CompatError> {
        let jobs = problem.jobs();
        if jobs > MOST_JOBS {
            return Err(CompatError::TooManyJobs { jobs, limit: MOST_JOBS });
        }
        let same = |a: usize, b: usize| {
            problem.periods[a] == problem.periods[b]
                && problem.resources.iter().all(|resource| resource.arcs[a] == resource.arcs[b])
        };
        let twins = (0..jobs).map(|job| (0..job).rev().find(|e| same(*e, job))).collect();
        let (load, best) = (problem.least_excess(), u128::MAX);
        Ok(Self { problem, budget, twins, load, best, best_shifts: vec![0; jobs] })
    }

    /// Explores all placements of the unplaced jobs. `None` if all were explored or ruled out;
    /// otherwise a bound below which none of the unexplored ones lies.
    fn grow(&mut self, partial: &Partial) -> Option<u128> {
        if self.best <= self.load {
            return None;
        }
        let mut remaining = partial.clone();
        let mut options = Vec::new();
        // A job's least growth never falls as others are placed, so its earlier value is a bound
        // too.
        let mut bound =
            partial.objective + partial.unplaced().map(|job| partial.least[job]).sum::<u128>();
        for job in partial.unplaced() {
            let choices = self.choices(partial, job);
            bound = bound - partial.least[job] + choices.least;
            if bound >= self.best {
                return None;
            }
            remaining.least[job] = choices.least;
            options.push(choices);
        }
        if options.is_empty() {
            self.keep_if_better(partial);
            return None;
        }
        if self.budget.exhausted() {
            return Some(bound);
        }
        if options.iter().all(|option| option.contacts.is_empty()) {
            // No unplaced job shares a resource with a placed one, so the first of them may have
            // any shift.
            let Choices { job, least, .. } = options[0];
            return self.grow(&partial.with(self.problem, job, 0, least));
        }
        // The job that adds most even at its best goes first: its branches are pruned soonest.
        options.sort_by_key(|option| (std::cmp::Reverse(option.least), option.job));
        for Choices { job, contacts, least } in &mut options {
            contacts.sort_unstable();
            if !self.has_equal_twin_before(partial, *job) {
                let slack = bound - *least;
                for Contact { growth, shift, .. } in
                    contacts.iter().filter(|contact| contact.allowed)
                {
                    if slack + *growth >= self.best {
                        break;
                    }
                    if self.budget.is_spent() {
                        return Some(bound);
                    }
                    let open = self.grow(&remaining.with(self.problem, *job, *shift, *growth));
                    if let Some(open) = open {
                        // This node's bound covers everything that it has not explored.
                        return Some(open.min(bound));
                    }
                }
            }
            remaining.tried[*job] |= partial.placed_mask();
        }
        None
    }

    fn choices(&mut self, partial: &Partial, job: usize) -> Choices {
        let growth = Growth::new(self.problem, &partial.surplus, job);
        let contacts: Vec<Contact> = contacts(self.problem, partial, job)
            .into_iter()
            .map(|(shift, allowed)| Contact { growth: growth.at(shift), shift, allowed })
            .collect();
        // Without contacts, the job shares no resource with the placed ones.
        let least =
            contacts.iter().map(|contact| contact.growth).min().unwrap_or_else(|| growth.at(0));
        self.budget.spend(contacts.len());
        Choices { job, contacts, least }
    }

    /// Whether an earlier unplaced job has the same arcs and the same choices: exchanging the two
    /// changes nothing, so only the first is branched on.
    fn has_equal_twin_before(&self, partial: &Partial, job: usize) -> bool {
        std::iter::successors(self.twins[job], |twin| self.twins[*twin])
            .any(|twin| partial.shifts[twin].is_none() && partial.tried[twin] == partial.tried[job])
    }

    fn keep_if_better(&mut self, partial: &Partial) {
        if partial.objective < self.best {
            self.best = partial.objective;
            self.best_shifts =
                partial.shifts.iter().map(|shift| shift.expect("all jobs are placed")).collect();
        }
    }

    /// First solutions, which let the search prune from its first node on: jobs are placed one
    /// after another where they add least, then moved one by one while that helps, in several
    /// orders.
    fn first_solutions(&mut self) {
        let jobs = self.problem.jobs();
        for first in 1..jobs.max(2) {
            if first > 1 && (self.budget.is_spent() || self.best <= self.load) {
                break;
            }
            let order = (1..jobs).map(|i| 1 + (first - 1 + i - 1) % (jobs - 1));
            let mut partial = Partial::first_placed(self.problem);
            for job in order.clone() {
                partial = self.with_best(&partial, job);
            }
            loop {
                let before = partial.objective;
                for job in order.clone() {
                    if self.budget.is_spent() {
                        break;
                    }
                    let others = partial.without(self.problem, job);
                    partial = self.with_best(&others, job);
                }
                if partial.objective >= before || self.budget.is_spent() {
                    break;
                }
            }
            self.keep_if_better(&partial);
        }
    }

    fn with_best(&mut self, partial: &Partial, job: usize) -> Partial {
        if self.budget.is_spent() {
            return partial.with_job(self.problem, job, 0);
        }
        let choices = self.choices(partial, job);
        let shift = choices.contacts.iter().min().map_or(0, |contact| contact.shift);
        partial.with(self.problem, job, shift, choices.least)
    }
}

fn middle_of_plateau(problem: &Problem, others: &Partial, job: usize, shift: u64) -> u64 {
    let period = problem.periods[job];
    let growth = Growth::new(problem, &others.surplus, job);
    let own = growth.at(shift);
    let mut kinks = all_kinks(problem, others, job);
    if kinks.is_empty() {
        return shift;
    }
    // Distances from `shift` going up; going down they are the period minus these.
    for kink in &mut kinks {
        *kink = (*kink + period - shift) % period;
    }
    kinks.sort_unstable();
    kinks.dedup();
    // Growth is linear between kinks: equal at both, it is equal in between.
    let flat = |distance: &u64| growth.at((shift + distance) % period) == own;
    let up = kinks.iter().copied().take_while(flat).last().unwrap_or(0);
    let down_to = kinks.iter().rev().copied().take_while(flat).last().unwrap_or(0);
    let down = if down_to == 0 { 0 } else { period - down_to };
    // All shifts are equally good: none is the middle.
    if up + down >= period {
        return shift;
    }
    (shift + period - down + (up + down) / 2) % period
}

impl Partial {
    fn empty(problem: &Problem) -> Self {
        let free =
            |capacity: u64| Rc::new(Surplus::new(problem, vec![0], vec![-i128::from(capacity)]));
        Self {
            shifts: vec![None; problem.jobs()],
            surplus: problem.resources.iter().map(|resource| free(resource.capacity)).collect(),
            tried: vec![0; problem.jobs()],
            least: vec![0; problem.jobs()],
            objective: 0,
        }
    }

    /// The first job alone, at 0.
    fn first_placed(problem: &Problem) -> Self {
        Self::empty(problem).with_job(problem, 0, 0)
    }

    /// A copy with `job` placed at `shift`.
    fn with_job(&self, problem: &Problem, job: usize, shift: u64) -> Self {
        self.with(problem, job, shift, Growth::new(problem, &self.surplus, job).at(shift))
    }

    /// A copy with `job` placed at `shift`, by which the objective grows by `growth`.
    fn with(&self, problem: &Problem, job: usize, shift: u64, growth: u128) -> Self {
        let mut next = self.clone();
        next.objective += growth;
        next.shifts[job] = Some(shift);
        next.change_surplus(problem, job, shift, 1);
        next
    }

    /// The other placed jobs alone. Nothing counts as tried.
    fn without(&self, problem: &Problem, job: usize) -> Self {
        let mut others =
            Self { tried: vec![0; problem.jobs()], least: vec![0; problem.jobs()], ..self.clone() };
        if let Some(shift) = others.shifts[job].take() {
            others.change_surplus(problem, job, shift, -1);
            others.objective -= Growth::new(problem, &others.surplus, job).at(shift);
        }
        others
    }

    /// Adds `sign` × the demand of `job` at `shift`.
    fn change_surplus(&mut self, problem: &Problem, job: usize, shift: u64, sign: i128) {
        for (surplus, resource) in self.surplus.iter_mut().zip(&problem.resources) {
            if !resource.arcs[job].is_empty() {
                *surplus = Rc::new(surplus.changed(problem, job, &resource.arcs[job], shift, sign));
            }
        }
    }

    fn unplaced(&self) -> impl Iterator<Item = usize> {
        (0..self.shifts.len()).filter(|job| self.shifts[*job].is_none())
    }

    fn placed_mask(&self) -> u64 {
        let placed = self.shifts.iter().enumerate().filter(|(_, shift)| shift.is_some());
        placed.fold(0, |mask, (job, _)| mask | 1 << job)
    }
}

impl Surplus {
    fn new(problem: &Problem, positions: Vec<u64>, values: Vec<i128>) -> Self {
        Self { positions, values, bands: vec![OnceCell::new(); problem.jobs()] }
    }

    /// A copy to which `sign` × the demand of `job` at `shift` is added.
    fn changed(&self, problem: &Problem, job: usize, arcs: &[Arc], shift: u64, sign: i128) -> Self {
        let mut steps: Vec<(u64, i128)> = Vec::new();
        for TurnedArc { start, end, height } in turned(problem, job, arcs, shift) {
            let height = sign * i128::from(height);
            steps.push((start, height));
            if end < problem.perimeter {
                steps.push((end, -height));
            } else if end > problem.perimeter {
                steps.extend([(0, height), (end - problem.perimeter, -height)]);
            }
        }
        steps.sort_unstable_by_key(|step| step.0);
        let most = self.positions.len() + steps.len();
        let (mut positions, mut values) = (Vec::with_capacity(most), Vec::with_capacity(most));
        let mut steps = steps.into_iter().peekable();
        let mut old = self.positions.iter().copied().zip(self.values.iter().copied()).peekable();
        let (mut value, mut added) = (0, 0);
        while let Some(position) =
            old.peek().map(|each| each.0).into_iter().chain(steps.peek().map(|step| step.0)).min()
        {
            if let Some((_, at)) = old.next_if(|each| each.0 == position) {
                value = at;
            }
            while let Some((_, step)) = steps.next_if(|step| step.0 == position) {
                added += step;
            }
            // Positions at which nothing changes any more would slow all later steps down.
            if values.last() != Some(&(value + added)) {
                positions.push(position);
                values.push(value + added);
            }
        }
        Self::new(problem, positions, values)
    }

    /// The bands of `job` on this surplus, the one of resource number `resource`.
    fn bands(&self, problem: &Problem, resource: usize, job: usize) -> &[Band] {
        self.bands[job].get_or_init(|| {
            let arcs = &problem.resources[resource].arcs[job];
            let folded = self.folded(problem.periods[job]);
            let heights: BTreeSet<u64> = arcs.iter().map(|arc| arc.height).collect();
            let band = |height| {
                let arcs = arcs.iter().filter(|arc| arc.height == height);
                let arcs = arcs.map(|arc| (arc.start, arc.end)).collect();
                let weight = problem.resources[resource].weight;
                Band::new(problem, self, &folded, job, height, weight, arcs)
            };
            heights.into_iter().map(band).collect()
        })
    }

    /// The positions within `period`, ascending, each with its place in `positions`; those at whole
    /// periods are left out.
    fn folded(&self, period: u64) -> Vec<(u64, usize)> {
        let places = self.positions.iter().enumerate();
        let mut folded: Vec<(u64, usize)> = places
            .map(|(place, position)| (position % period, place))
            .filter(|(position, _)| *position > 0)
            .collect();
        // Each period is an ascending run, which a stable sort merges.
        folded.sort_by_key(|each| each.0);
        folded
    }
}

/// The growth of the excess where the surplus is `value` and `height` is added.
fn rise(value: i128, height: u64) -> i128 {
    (value + i128::from(height)).max(0) - value.max(0)
}

/// The arcs of a job on the unified circle, in all its rounds.
fn turned(
    problem: &Problem,
    job: usize,
    arcs: &[Arc],
    shift: u64,
) -> impl Iterator<Item = TurnedArc> {
    let period = problem.periods[job];
    arcs.iter().flat_map(move |arc| {
        let first = (arc.start + shift) % period;
        (0..problem.perimeter / period).map(move |round| {
            let start = first + round * period;
            TurnedArc { start, end: start + (arc.end - arc.start), height: arc.height }
        })
    })
}

/// The growth of the objective if a job is added to the placed ones, prepared for evaluation at
/// many shifts: its bands on each resource that it uses.
struct Growth<'a>(Vec<&'a [Band]>);

/// The arcs of one height that the job has on one resource, and the growth per tick that an arc of
/// this height causes there, summed over all rounds: a piecewise constant function of the position
/// within one period.
#[derive(Clone)]
struct Band {
    weight: u128,
    period: u64,
    /// As (start, end) within the period.
    arcs: Vec<(u64, u64)>,
    positions: Vec<u64>,
    /// Growth per tick from each position to the next.
    rates: Vec<u128>,
    /// Growth from 0 to each position, then to the end of the period.
    prefix: Vec<u128>,
}

impl<'a> Growth<'a> {
    fn new(problem: &Problem, surplus: &'a [Rc<Surplus>], job: usize) -> Self {
        let used = surplus
            .iter()
            .enumerate()
            .filter(|(resource, _)| !problem.resources[*resource].arcs[job].is_empty());
        Self(used.map(|(resource, surplus)| surplus.bands(problem, resource, job)).collect())
    }

    fn at(&self, shift: u64) -> u128 {
        self.0.iter().copied().flatten().map(|band| band.weight * band.at(shift)).sum()
    }
}

impl Band {
    /// `folded` as [`Surplus::folded`] returns it for the job's period.
    fn new(
        problem: &Problem,
        surplus: &Surplus,
        folded: &[(u64, usize)],
        job: usize,
        height: u64,
        weight: u128,
        arcs: Vec<(u64, u64)>,
    ) -> Self {
        let period = problem.periods[job];
        let rises: Vec<i128> = surplus.values.iter().map(|value| rise(*value, height)).collect();
        // At 0, each period contributes the rate at its start.
        let mut place = 0;
        let mut rate = 0;
        for round in 0..problem.perimeter / period {
            while surplus.positions.get(place + 1).is_some_and(|next| *next <= round * period) {
                place += 1;
            }
            rate += rises[place];
        }
        let mut band = Self {
            weight,
            period,
            arcs,
            positions: vec![0],
            rates: vec![rate.unsigned_abs()],
            prefix: Vec::new(),
        };
        for &(position, place) in folded {
            // The first position of a surplus is 0, so each of these has one before it.
            let change = rises[place] - rises[place - 1];
            if change == 0 {
                continue;
            }
            rate += change;
            let level = rate.unsigned_abs();
            if band.positions.last() == Some(&position) {
                *band.rates.last_mut().expect("positions and rates go together") = level;
            } else {
                band.positions.push(position);
                band.rates.push(level);
            }
        }
        let mut sum = 0;
        let ends = band.positions.iter().skip(1).chain([&period]);
        for ((from, to), rate) in band.positions.iter().zip(ends).zip(&band.rates) {
            band.prefix.push(sum);
            sum += u128::from(to - from) * rate;
        }
        band.prefix.push(sum);
        band
    }

    fn at(&self, shift: u64) -> u128 {
        let turned = |&(start, end): &(u64, u64)| {
            let from = (start + shift) % self.period;
            let to = from + (end - start);
            match to.checked_sub(self.period) {
                None => self.until(to) - self.until(from),
                Some(past) => self.until(self.period) - self.until(from) + self.until(past),
            }
        };
        self.arcs.iter().map(turned).sum()
    }

    /// The growth from 0 to `position`, which is at most the period.
    fn until(&self, position: u64) -> u128 {
        let step = self.positions.partition_point(|start| *start <= position) - 1;
        self.prefix[step] + u128::from(position - self.positions[step]) * self.rates[step]
    }
}

/// The contacts of `job` with placed jobs: shifts in ascending order, each with whether one of
/// these placed jobs has not been tried.
fn contacts(problem: &Problem, partial: &Partial, job: usize) -> Vec<(u64, bool)> {
    let mut found: Vec<(u64, bool)> = Vec::new();
    for_shared_arcs(problem, partial, job, |other, placed, arc| {
        let allowed = partial.tried[job] & (1 << other) == 0;
        found.push((distance(problem, job, arc.start, placed.end), !allowed));
        found.push((distance(problem, job, arc.end, placed.start), !allowed));
    });
    // Allowed sorts first, so that it is kept if a shift has contacts with several jobs.
    found.sort_unstable();
    found.dedup_by_key(|contact| contact.0);
    found.into_iter().map(|(shift, tried)| (shift, !tried)).collect()
}

/// Shifts of `job` at which any of its edges meets any edge of a placed job: the kinks of its
/// growth.
fn all_kinks(problem: &Problem, partial: &Partial, job: usize) -> Vec<u64> {
    let mut kinks = Vec::new();
    for_shared_arcs(problem, partial, job, |_, placed, arc| {
        for edge in [arc.start, arc.end] {
            kinks.push(distance(problem, job, edge, placed.start));
            kinks.push(distance(problem, job, edge, placed.end));
        }
    });
    kinks
}

/// Calls `visit` with each arc of a placed job and each arc of `job` on the same resource.
fn for_shared_arcs(
    problem: &Problem,
    partial: &Partial,
    job: usize,
    mut visit: impl FnMut(usize, TurnedArc, &Arc),
) {
    for resource in problem.resources.iter().filter(|resource| !resource.arcs[job].is_empty()) {
        for (other, arcs) in resource.arcs.iter().enumerate() {
            let Some(shift) = partial.shifts[other] else { continue };
            for placed in turned(problem, other, arcs, shift) {
                for arc in &resource.arcs[job] {
                    visit(other, placed, arc);
                }
            }
        }
    }
}

/// The shift of `job` that brings its edge at `edge` to `position`.
fn distance(problem: &Problem, job: usize, edge: u64, position: u64) -> u64 {
    let period = problem.periods[job];
    // An edge at the end of the period is one at 0.
    (position % period + period - edge % period) % period
}

#[cfg(test)]
mod tests {
    use hocket_des::Rate;
    use hocket_scenario::Profile;
    use proptest::prelude::*;

    use super::*;
    use crate::grid;
    use crate::problem::LinkProblem;
    use crate::search::SolveOptions;
    use crate::testing::{profile, up};

    fn jobs() -> impl Strategy<Value = Vec<Profile>> {
        let job = (prop::sample::select(vec![15u64, 20, 30, 60]), 1u64..15, 1u64..15, 5u64..60);
        prop::collection::vec(job, 2..6).prop_map(|jobs| {
            jobs.into_iter()
                .map(|(period, start, duration, gbps)| {
                    if start >= period {
                        return profile(period, &[]);
                    }
                    profile(period, &[up(start, duration.min(period - start), gbps)])
                })
                .collect()
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(128))]

        #[test]
        fn trees_of_meetings_reach_what_the_grid_of_ticks_reaches(
            jobs in jobs(), share_a_gpu in any::<bool>(),
        ) {
            let gpu_groups = if share_a_gpu { vec![vec![0, 1]] } else { Vec::new() };
            let link = LinkProblem { capacity: Rate::from_gbps(50), jobs, gpu_groups };
            let problem = link.build(false).unwrap();
            let options = SolveOptions::default();
            let ticks = grid::solve(&problem, problem.perimeter, &mut Budget::new(&options)).unwrap();
            let trees = solve(&problem, &mut Budget::new(&options)).unwrap();
            prop_assert!(trees.proven && ticks.proven);
            prop_assert!((trees.objective - ticks.objective).abs() < 0.5, "excess is whole here");
            prop_assert!(problem.least_excess() as f64 <= trees.objective);
        }

        #[test]
        fn a_job_that_is_added_and_removed_leaves_no_trace(
            jobs in jobs(), shifts in prop::collection::vec(0u64..60, 6),
        ) {
            let link = LinkProblem { capacity: Rate::from_gbps(50), jobs, gpu_groups: Vec::new() };
            let problem = link.build(false).unwrap();
            let last = problem.jobs() - 1;
            let at = |job: usize| shifts[job] % problem.periods[job];
            let before =
                (0..last).fold(Partial::empty(&problem), |all, job| all.with_job(&problem, job, at(job)));
            let after = before.with_job(&problem, last, at(last)).without(&problem, last);
            prop_assert_eq!(&before.shifts, &after.shifts);
            prop_assert_eq!(before.objective, after.objective);
            prop_assert_eq!(&before.surplus[0].positions, &after.surplus[0].positions);
            prop_assert_eq!(&before.surplus[0].values, &after.surplus[0].values);
        }
    }
}
