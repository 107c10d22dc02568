//! What a template gives as a JSON Schema, as far as that is known before it is rendered.

use serde_json::{Map, Value as Json, json};

use crate::expression::{Expression, Leaf};

use super::{Node, Template};

impl Template {
    /// The schema of the tree. What a lone expression gives is asked for: it is the one thing that the template
    /// does not say itself.
    pub fn schema(&self, of_expression: &dyn Fn(&Expression) -> Json) -> Json {
        self.root.schema(of_expression)
    }
}

impl Node {
    fn schema(&self, of_expression: &dyn Fn(&Expression) -> Json) -> Json {
        match self {
            Self::Literal(value, _) => json!({ "const": value }),
            Self::Leaf(Leaf::Literal(text), _) => json!({ "const": text }),
            Self::Leaf(Leaf::Mixture(_), _) => json!({ "type": "string" }),
            Self::Leaf(Leaf::Lone(expression), _) => of_expression(expression),
            Self::Map(members, _) => {
                let schemas = members.iter().map(|(key, node)| (key.clone(), node.schema(of_expression)));
                json!({ "type": "object", "properties": schemas.collect::<Map<_, _>>() })
            }
            Self::List(nodes) => match nodes.as_slice() {
                [Self::Directed(only)] => {
                    json!({ "type": "array", "items": only.body.schema(of_expression) })
                }
                [only] => json!({ "type": "array", "items": only.schema(of_expression) }),
                _ => json!({ "type": "array", "items": {} }),
            },
            Self::Directed(directed) => {
                let body = directed.body.schema(of_expression);
                if directed.each.is_some() { json!({ "type": "array", "items": body }) } else { body }
            }
        }
    }
}
