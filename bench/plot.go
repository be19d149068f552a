package main

import (
	"encoding/xml"
	"fmt"
	"os"
	"strings"
)

const (
	plotWidth  = 1080
	plotLine   = 34  // height of one figure
	plotTop    = 116 // where the first begins
	plotLabel  = 478 // where the bars begin
	plotGoal   = 190 // length of a bar that is exactly the goal
	plotShares = 1.6 // the longest bar, in goals; what is longer is cut
)

// plot writes the run as an SVG: a bar a goal, whose length is the part of the goal that was
// reached, and the goal as a line. Its colours follow the reader's scheme, light or dark.
func (r *result) plot(file string) error {
	var b strings.Builder
	var figures []figure
	for _, f := range r.Rows {
		if f.Goal > 0 || f.Error != "" {
			figures = append(figures, f)
		}
	}
	height := plotTop + plotLine*len(figures) + 24
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" width="%d" height="%d" role="img" aria-label="Goals reached">
<style>
	svg { color-scheme: light dark; font: 13px system-ui, sans-serif; background: #ffffff }
	text { fill: #1f2328 } .quiet { fill: #59636e } .title { font-size: 17px; font-weight: 600 }
	.track { fill: #eff2f5 } .met { fill: #2da44e } .missed { fill: #d4772c } .failed { fill: #cf222e } .goal { stroke: #1f2328; stroke-width: 1.5; stroke-dasharray: 3 3 }
	@media (prefers-color-scheme: dark) {
		svg { background: #0d1117 } text { fill: #e6edf3 } .quiet { fill: #9198a1 }
		.track { fill: #1b2129 } .met { fill: #3fb950 } .missed { fill: #e0823d } .failed { fill: #f85149 } .goal { stroke: #e6edf3 }
	}
</style>
`, plotWidth, height, plotWidth, height)
	text := func(x, y int, class, anchor, s string) {
		fmt.Fprintf(&b, `<text x="%d" y="%d" class="%s" text-anchor="%s">%s</text>`+"\n", x, y, class, anchor, escape(s))
	}
	text(16, 30, "title", "start", fmt.Sprintf("Ajo against its goals; tps = %.0f", r.TPS))
	text(16, 52, "quiet", "start", fmt.Sprintf("pgbench TPC-B on the same Postgres: %.0f before, %.0f after; commit %s, %s",
		r.TPSBefore, r.TPSAfter, r.Commit, r.At.Format("2006-01-02 15:04 UTC")))
	text(16, 72, "quiet", "start", r.Machine)
	text(plotLabel+plotGoal, plotTop-12, "quiet", "middle", "goal")
	for i, f := range figures {
		y := plotTop + i*plotLine
		long := int(min(f.share(), plotShares) * plotGoal)
		text(plotLabel-12, y+18, "", "end", f.What)
		fmt.Fprintf(&b, `<rect x="%d" y="%d" width="%d" height="22" rx="3" class="track"/><rect x="%d" y="%d" width="%d" height="22" rx="3" class="%s"/>`+"\n",
			plotLabel, y+3, int(plotShares*plotGoal), plotLabel, y+3, max(2, long), strings.ToLower(f.verdict()))
		text(plotLabel+int(plotShares*plotGoal)+12, y+18, "", "start", f.plotText())
	}
	fmt.Fprintf(&b, `<line x1="%d" y1="%d" x2="%d" y2="%d" class="goal"/>`+"\n</svg>\n", plotLabel+plotGoal, plotTop-6, plotLabel+plotGoal, plotTop+plotLine*len(figures))
	return os.WriteFile(file, []byte(b.String()), 0o644)
}

// plotText stands on the right of a bar.
func (f figure) plotText() string {
	if f.Error != "" {
		return "failed"
	}
	s := number(f.Value) + " " + f.Unit
	if f.InTPS {
		s += fmt.Sprintf(" = %.2f × tps", f.Ratio)
	}
	return s + " (" + f.goalText() + ")"
}

func escape(s string) string {
	var b strings.Builder
	if err := xml.EscapeText(&b, []byte(s)); err != nil {
		panic(err) // a builder takes everything
	}
	return b.String()
}
