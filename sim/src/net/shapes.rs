//! Shapes of partitions: which links are cut.

use std::collections::BTreeSet;

use crate::random::Stream;
use crate::world::NodeId;

/// How a partition divides nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Shape {
    /// One node is alone.
    IsolateOne,
    /// One node hears nobody.
    Deaf,
    /// Nobody hears one node.
    Mute,
    /// Two halves.
    Halves,
    /// Each node is on one of two sides by the toss of a coin.
    Uniform,
    /// Each ordered pair for itself by the toss of a coin.
    OneWayUniform,
    /// Two halves that only one node connects.
    Bridge,
    /// Nodes in a ring: each sees its neighbours, so that each sees a majority and no two see the same one.
    MajoritiesRing,
}

impl Shape {
    /// All of them.
    pub const ALL: [Shape; 8] = [
        Shape::IsolateOne,
        Shape::Deaf,
        Shape::Mute,
        Shape::Halves,
        Shape::Uniform,
        Shape::OneWayUniform,
        Shape::Bridge,
        Shape::MajoritiesRing,
    ];

    /// The links to cut, by sender and receiver, in order.
    pub fn cuts(self, nodes: &[NodeId], random: &mut Stream) -> Vec<(NodeId, NodeId)> {
        let mut nodes = nodes.to_vec();
        for last in (1..nodes.len()).rev() {
            nodes.swap(last, random.below(last as u64 + 1) as usize);
        }
        let half = nodes.len() / 2;
        let sides: Vec<bool> = nodes.iter().map(|_| random.below(2) == 0).collect();
        let (count, reach) = (nodes.len(), (nodes.len() / 2).div_ceil(2));
        let mut cuts = BTreeSet::new();
        for from in 0..count {
            for to in (0..count).filter(|to| *to != from) {
                let cut = match self {
                    Shape::IsolateOne => from == 0 || to == 0,
                    Shape::Deaf => to == 0,
                    Shape::Mute => from == 0,
                    Shape::Halves => (from < half) != (to < half),
                    Shape::Uniform => sides[from] != sides[to],
                    Shape::OneWayUniform => random.below(2) == 0,
                    Shape::Bridge => from != 0 && to != 0 && (from <= half) != (to <= half),
                    Shape::MajoritiesRing => {
                        let distance = from.abs_diff(to);
                        distance.min(count - distance) > reach
                    }
                };
                if cut {
                    cuts.insert((nodes[from], nodes[to]));
                }
            }
        }
        cuts.into_iter().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen_by(node: NodeId, nodes: &[NodeId], cuts: &[(NodeId, NodeId)]) -> usize {
        nodes.iter().filter(|other| !cuts.contains(&(node, **other)) && !cuts.contains(&(**other, node))).count()
    }

    #[test]
    fn shapes_cut_what_their_names_say() {
        let nodes: Vec<NodeId> = (1..=5).map(NodeId).collect();
        for seed in 0..50 {
            let mut random = Stream::new(seed, "shapes");
            let mut cuts = |shape: Shape| shape.cuts(&nodes, &mut random);
            assert_eq!(cuts(Shape::IsolateOne).len(), 8);
            assert_eq!(cuts(Shape::Deaf).len(), 4);
            assert_eq!(cuts(Shape::Mute).len(), 4);
            assert_eq!(cuts(Shape::Halves).len(), 12);
            let bridge = cuts(Shape::Bridge);
            let whole = nodes.iter().filter(|node| seen_by(**node, &nodes, &bridge) == 5).count();
            assert_eq!(whole, 1, "one node connects the halves");
            let ring = cuts(Shape::MajoritiesRing);
            assert!(nodes.iter().all(|node| seen_by(*node, &nodes, &ring) > 2), "each sees a majority");
            assert!(!ring.is_empty());
            assert!(cuts(Shape::OneWayUniform).iter().all(|(from, to)| from != to));
        }
    }

    #[test]
    fn two_nodes_can_be_divided_too() {
        let nodes = [NodeId(1), NodeId(2)];
        let mut random = Stream::new(1, "shapes");
        assert_eq!(Shape::IsolateOne.cuts(&nodes, &mut random).len(), 2);
        assert_eq!(Shape::Halves.cuts(&nodes, &mut random).len(), 2);
        assert_eq!(Shape::MajoritiesRing.cuts(&[NodeId(1)], &mut random), []);
    }
}
