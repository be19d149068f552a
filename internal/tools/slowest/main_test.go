package main

import (
	"strings"
	"testing"
	"time"
)

const run = `{"Action":"start","Package":"ajo/a"}
{"Action":"output","Package":"ajo/a","Output":"-test.shuffle 17\n"}
{"Action":"output","Package":"ajo/a","Test":"TestQuiet","Output":"nobody reads this\n"}
{"Action":"pass","Package":"ajo/a","Test":"TestQuiet","Elapsed":0.5}
{"Action":"output","Package":"ajo/a","Test":"TestBad","Output":"    a_test.go:7: it is 2\n"}
{"Action":"output","Package":"ajo/a","Test":"TestBad","Output":"--- FAIL: TestBad (2.00s)\n"}
{"Action":"fail","Package":"ajo/a","Test":"TestBad","Elapsed":2}
{"Action":"output","Package":"ajo/a","Output":"FAIL\tajo/a\t2.6s\n"}
{"Action":"fail","Package":"ajo/a","Elapsed":2.6}
{"Action":"output","Package":"ajo/b","Test":"TestPanics","Output":"panic: oh\n"}
{"Action":"output","Package":"ajo/b","Output":"FAIL\tajo/b\t9.1s\n"}
{"Action":"fail","Package":"ajo/b","Elapsed":9.1}
{"Action":"output","Package":"ajo/d","Output":"-test.shuffle 18\n"}
{"ImportPath":"ajo/c","Action":"build-output","Output":"c.go:1: no such thing\n"}
{"Action":"output","Package":"ajo/d","Output":"PASS\n"}
{"Action":"output","Package":"ajo/d","Output":"ok  \tajo/d\t1.0s\n"}
{"Action":"pass","Package":"ajo/d","Elapsed":1.0}
no JSON
`

func TestWhatIsPrinted(t *testing.T) {
	var out strings.Builder
	took, err := read(strings.NewReader(run), &out)
	if err != nil {
		t.Fatal(err)
	}
	took.print(&out, 13*time.Second)
	want := `    a_test.go:7: it is 2
--- FAIL: TestBad (2.00s)
FAIL	ajo/a	2.6s
-test.shuffle 17
FAIL	ajo/b	9.1s
panic: oh
c.go:1: no such thing
ok  	ajo/d	1.0s
no JSON

3 packages in 13s; what took longest:
    9.1 s  ajo/b
    2.6 s  ajo/a
    1.0 s  ajo/d

    2.0 s  ajo/a TestBad
    0.5 s  ajo/a TestQuiet

`
	if out.String() != want {
		t.Errorf("printed:\n%s\nnot:\n%s", out.String(), want)
	}
}
