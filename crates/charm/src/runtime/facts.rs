//! What a dispatch knows, and what it has to find out first.

use std::collections::BTreeSet;
use std::fmt;

/// The questions without whose answers a plan cannot go on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ask<Question>(BTreeSet<Question>);

impl<Question: Ord> Ask<Question> {
    /// Asks one question.
    pub fn one(question: Question) -> Self {
        Self(BTreeSet::from([question]))
    }

    /// Says whether there is more than one question.
    pub fn has_several(&self) -> bool {
        self.0.len() > 1
    }

    /// Returns the questions.
    pub fn into_questions(self) -> BTreeSet<Question> {
        self.0
    }
}

/// The answers so far. [`facts!`](crate::facts) writes a type for them.
pub trait Facts: Default + Sync {
    type Question: Copy + Ord + fmt::Debug + Send + Sync;
    type Fact: Send;

    /// Says whether a question was answered.
    fn knows(&self, question: Self::Question) -> bool;

    /// Takes an answer.
    fn learn(&mut self, fact: Self::Fact);

    /// Asks several questions at once, so that they are looked at side by side. Err: those that are still open.
    fn need(&self, questions: &[Self::Question]) -> Result<(), Ask<Self::Question>> {
        let open: BTreeSet<_> = questions.iter().copied().filter(|question| !self.knows(*question)).collect();
        if open.is_empty() { Ok(()) } else { Err(Ask(open)) }
    }
}

/// Writes the three types that belong to a charm's facts: `Question`, `Fact` (an answer) and `Facts` (the answers so
/// far).
///
/// Each line has the name of the accessor, the name of the question and the type of the answer. An accessor returns
/// `Err(Ask)` while the question is open, so that a plan asks with `?`:
///
/// ```
/// use charm::runtime::Ask;
///
/// charm::facts! {
///     /// This unit leads its application.
///     leader: Leader(bool),
///     /// The text of the message of the day.
///     motd: Motd(String),
/// }
///
/// fn plan(facts: &Facts) -> Result<Vec<String>, Ask<Question>> {
///     facts.need(&[Question::Leader, Question::Motd])?;
///     Ok(if *facts.leader()? { vec![facts.motd()?.clone()] } else { Vec::new() })
/// }
///
/// let mut facts = Facts::default();
/// assert_eq!(plan(&facts).unwrap_err().into_questions().len(), 2);
/// facts.learn(Fact::Leader(true));
/// facts.learn(Fact::Motd("hello".to_owned()));
/// assert_eq!(plan(&facts).unwrap(), ["hello"]);
/// ```
///
/// With a head such as `look(view: &View, known) -> Error;` each line also says how its question is answered, and a
/// function `look` is written as well:
///
/// ```
/// charm::facts! {
///     look(motd: &std::path::Path, known) -> std::io::Error;
///     motd: Motd(String) = std::fs::read_to_string(motd)?,
///     length: Length(usize) = known.motd().map_or(0, String::len),
/// }
///
/// assert!(look("/nowhere".as_ref(), Question::Motd, &Facts::default()).is_err());
/// ```
#[macro_export]
macro_rules! facts {
    (
        look($view:ident: &$world:ty, $known:ident) -> $error:ty;
        $($(#[$doc:meta])* $field:ident : $question:ident ( $answer:ty ) = $look:expr ),* $(,)?
    ) => {
        $crate::facts! { $($(#[$doc])* $field: $question($answer)),* }

        /// Answers one question.
        pub fn look($view: &$world, question: Question, $known: &Facts) -> Result<Fact, $error> {
            Ok(match question { $(Question::$question => Fact::$question($look),)* })
        }
    };
    ($($(#[$doc:meta])* $field:ident : $question:ident ( $answer:ty ) ),* $(,)?) => {
        /// What a plan can ask.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
        pub enum Question { $($(#[$doc])* $question,)* }

        /// An answer.
        #[derive(Debug, Clone)]
        #[allow(clippy::large_enum_variant, reason = "an answer is moved once, to where it is kept")]
        pub enum Fact { $($(#[$doc])* $question($answer),)* }

        /// The answers so far.
        #[derive(Debug, Clone, Default)]
        pub struct Facts { $($field: Option<$answer>,)* }

        #[allow(dead_code, reason = "a charm need not use every function of its facts")]
        impl Facts {
            $($(#[$doc])*
            pub fn $field(&self) -> Result<&$answer, $crate::runtime::Ask<Question>> {
                self.$field.as_ref().ok_or_else(|| $crate::runtime::Ask::one(Question::$question))
            })*

            /// Asks several questions at once, so that they are looked at side by side.
            pub fn need(&self, questions: &[Question]) -> Result<(), $crate::runtime::Ask<Question>> {
                $crate::runtime::Facts::need(self, questions)
            }

            /// Takes an answer.
            pub fn learn(&mut self, fact: Fact) {
                match fact { $(Fact::$question(answer) => self.$field = Some(answer),)* }
            }

            /// Drops answers that a step made worthless.
            pub fn forget(&mut self, questions: &[Question]) {
                for question in questions {
                    match question { $(Question::$question => self.$field = None,)* }
                }
            }
        }

        impl $crate::runtime::Facts for Facts {
            type Question = Question;
            type Fact = Fact;

            fn knows(&self, question: Question) -> bool {
                match question { $(Question::$question => self.$field.is_some(),)* }
            }

            fn learn(&mut self, fact: Fact) {
                self.learn(fact);
            }
        }
    };
}
