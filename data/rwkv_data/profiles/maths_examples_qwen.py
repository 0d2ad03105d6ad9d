"""The worked examples of the evaluation of Qwen2.5-Math (MIT, evaluation/examples.py), word for word, slips included.

Each is a question and its answer. Reports on base models show the first four.
"""

from typing import Final

from rwkv_data.profiles.maths_examples import Examples

MATH: Final[Examples] = (
    (
        (
            "Kevin Kangaroo begins hopping on a number line at 0. He wants to get to 1, but he can hop only "
            "$\\frac{1}{3}$ of the distance. Each hop tires him out so that he continues to hop $\\frac{1}{3}$ of "
            "the remaining distance. How far has he hopped after five hops? Express your answer as a common "
            "fraction."
        ),
        (
            "Let's think step by step\n"
            "Kevin hops $1/3$ of the remaining distance with every hop.\n"
            "His first hop takes $1/3$ closer.\n"
            "For his second hop, he has $2/3$ left to travel, so he hops forward $(2/3)(1/3)$.\n"
            "For his third hop, he has $(2/3)^2$ left to travel, so he hops forward $(2/3)^2(1/3)$.\n"
            "In general, Kevin hops forward $(2/3)^{k-1}(1/3)$ on his $k$th hop.\n"
            "We want to find how far he has hopped after five hops.\n"
            "This is a finite geometric series with first term $1/3$, common ratio $2/3$, and five terms.\n"
            "Thus, Kevin has hopped "
            "$\\frac{\\frac{1}{3}\\left(1-\\left(\\frac{2}{3}\\right)^5\\right)}{1-\\frac{2}{3}} = "
            "\\boxed{\\frac{211}{243}}$.\n"
            "The answer is \\frac{211}{243}}"
        ),
    ),
    (
        "What is the area of the region defined by the equation $x^2+y^2 - 7 = 4y-14x+3$?",
        (
            "Let's think step by step\n"
            "We rewrite the equation as $x^2 + 14x + y^2 - 4y = 10$ and then complete the square,\n"
            "resulting in  $(x+7)^2-49 + (y-2)^2-4=10$,\n"
            "or $(x+7)^2+(y-2)^2=63$.\n"
            "This is the equation of a circle with center $(-7, 2)$ and radius $\\sqrt{63},$\n"
            "so the area of this region is $\\pi r^2 = \\boxed{63\\pi}$.\n"
            "The answer is 63\\pi"
        ),
    ),
    (
        "If $x^2+y^2=1$, what is the largest possible value of $|x|+|y|$?",
        (
            "Let's think step by step\n"
            "If $(x,y)$ lies on the circle,\n"
            "so does $(x,-y),$ $(-x,-y),$ and $(-x,-y),$ (which all give the same value of $|x| + |y|$),\n"
            "so we can assume that $x \\ge 0$ and $y \\ge 0.$\n"
            "Then $|x| + |y| = x + y.$  Squaring, we get\n"
            "\\[(x + y)^2 = x^2 + 2xy + y^2 = 1 + 2xy.\\]\n"
            "Note that $(x - y)^2 \\ge 0.$\n"
            "Expanding, we get $x^2 - 2xy + y^2 \\ge 0,$ so $2xy \\le x^2 + y^2 = 1.$\n"
            "Hence,\\[1 + 2xy \\le 2,\\]which means $x + y \\le \\sqrt{2}.$\n"
            "Equality occurs when $x = y = \\frac{1}{\\sqrt{2}},$\n"
            "so the maximum value of $|x| + |y|$ is $\\boxed{\\sqrt{2}}.$\n"
            "The answer is \\sqrt{2}"
        ),
    ),
    (
        (
            "If $f(x)=\\frac{ax+b}{cx+d}, abcd\\not=0$ and $f(f(x))=x$ for all $x$ in the domain of $f$, what is "
            "the value of $a+d$?"
        ),
        (
            "Let's think step by step\n"
            "The condition $f(f(x))$ means that $f$ is the inverse of itself,\n"
            "so its graph is symmetrical about the line $y = x$.\n"
            "With a rational function of this form, we will have two asymptotes:\n"
            "a vertical one at $x=-d/c$ if $cx+d$ does not divide $ax+b$,\n"
            "and a horizontal one at $y=a/c$,\n"
            "if we take the limit of $f(x)$ as $x$ goes to $\\pm\\infty$.\n"
            "In order for $f$ to be its own inverse, the intersection of the asymptotes must lie on the line "
            "$y=x$\n"
            "so that it and its asymptotes reflect onto themselves.\n"
            "This means that $-d/c=a/c$,\n"
            "and therefore $-d=a$ and $a+d=\\boxed{0}$.\n"
            "The answer is 0"
        ),
    ),
    (
        "Expand $(2z^2 + 5z - 6)(3z^3 - 2z + 1)$.",
        (
            "Let's think step by step\n"
            "$$\\begin{array}{crrrrrrr}\n"
            "& & & 3z^3 & & -2z & + 1 & \\\\\n"
            "\\times & & & & 2z^2 & +5z & -6 \\\\\n"
            "\\cline{1-7}\\rule{0pt}{0.17in}\n"
            "& & & -18z^3 & & +12z & -6 & \\\\\n"
            "& & +15z^4 & & -10z^2 & +5z & & \\\\\n"
            "+ & 6z^5 & & -4z^3 & +2z^2 & & & \\\\\n"
            "\\cline{1-7}\\rule{0pt}{0.17in}\n"
            "& 6z^5 & +15z^4 & -22z^3 & - 8z^2 &+17z & -6 &\n"
            "\\end{array}$$\n"
            "The answer is 6z^5+15z^4-22z^3-8z^2+17z-6"
        ),
    ),
)
"""For MATH, AIME and AMC. The first one really ends with a brace too many."""

MINERVA_OCW: Final[Examples] = (
    (
        "Find the domain of the expression $\\frac{\\sqrt{x-2}}{\\sqrt{5-x}}$.}",
        (
            "The expressions inside each square root must be non-negative.\n"
            "Therefore, $x-2 \\ge 0$, so $x\\ge2$, and $5 - x \\ge 0$, so $x \\le 5$.\n"
            "Also, the denominator cannot be equal to zero, so $5-x>0$, which gives $x<5$.\n"
            "Therefore, the domain of the expression is $\\boxed{[2,5)}$."
        ),
    ),
    (
        "If $\\det \\mathbf{A} = 2$ and $\\det \\mathbf{B} = 12,$ then find $\\det (\\mathbf{A} \\mathbf{B}).$",
        (
            "We have that $\\det (\\mathbf{A} \\mathbf{B}) = (\\det \\mathbf{A})(\\det \\mathbf{B}) = (2)(12) = "
            "\\boxed{24}.$"
        ),
    ),
    (
        (
            "Terrell usually lifts two 20-pound weights 12 times. If he uses two 15-pound weights instead, how "
            "many times must Terrell lift them in order to lift the same total weight?"
        ),
        (
            "If Terrell lifts two 20-pound weights 12 times, he lifts a total of $2\\cdot 12\\cdot20=480$ pounds "
            "of weight.  If he lifts two 15-pound weights instead for $n$ times, he will lift a total of "
            "$2\\cdot15\\cdot n=30n$ pounds of weight.  Equating this to 480 pounds, we can solve for $n$: "
            "\\begin{align*}\n"
            "30n&=480\\\\\\\n"
            "\\Rightarrow\\qquad n&=480/30=\\boxed{16}\n"
            "\\end{align*}"
        ),
    ),
    (
        (
            "If the system of equations\n\n"
            "\\begin{align*}\n"
            "6x-4y&=a,\\\\\\\n"
            "6y-9x &=b.\n"
            "\\end{align*}has a solution $(x, y)$ where $x$ and $y$ are both nonzero, find $\\frac{a}{b},$ "
            "assuming $b$ is nonzero."
        ),
        (
            "If we multiply the first equation by $-\\frac{3}{2}$, we obtain\n\n"
            "$$6y-9x=-\\frac{3}{2}a.$$Since we also know that $6y-9x=b$, we have\n\n"
            "$$-\\frac{3}{2}a=b\\Rightarrow\\frac{a}{b}=\\boxed{-\\frac{2}{3}}.$$"
        ),
    ),
)
"""For the MIT OCW problems that are called Minerva Math there."""
