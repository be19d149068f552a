package rules

import (
	"bytes"
	"encoding/json"
	"errors"
	"go/ast"
	"go/constant"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// effects are the functions after which the world is another: a commit, a record on disk, a task, a
// call of somebody else's service. The pool's own methods are commits when their SQL writes.
var effects = map[string]string{
	"ajo/internal/pg.InTx":                   "commit",
	"ajo/internal/pg.transact":               "commit",
	"(*ajo/internal/tenant.Service).locking": "commit",
	"github.com/jackc/pgx/v5.BeginFunc":      "commit", "github.com/jackc/pgx/v5.BeginTxFunc": "commit",
	"(*github.com/jackc/pgx/v5/pgxpool.Pool).Begin": "commit", "(*github.com/jackc/pgx/v5/pgxpool.Pool).BeginTx": "commit",
	"(*os.File).Sync": "commit to disk",
	"(*github.com/hibiken/asynq.Client).Enqueue": "enqueue", "(*github.com/hibiken/asynq.Client).EnqueueContext": "enqueue",
	"(*ajo/internal/safehttp.Client).Post": "foreign call", "(*net/http.Client).Do": "foreign call",
	"(*net/http.Client).Get": "foreign call", "(*net/http.Client).Post": "foreign call", "net/http.Get": "foreign call", "net/http.Post": "foreign call",
}

// foreign are the interfaces behind which somebody else's service stands: each of their methods
// that takes a context calls it.
var foreign = []string{"ajo/internal/provider.Bank", "ajo/internal/identity.Checker", "ajo/internal/mail.Sender"}

// unsurrounded are the effects that need no points around them, by the reason. One that is not
// there fails the test.
var unsurrounded = map[string][]string{
	"what is missing is made at the next sight": {
		"(*ajo/internal/tenant.Service).makeShadow InTx",
		"ajo/internal/transfer.RecordWallet Exec",
	},
	"it passes on a request and its answer, and has nothing of its own to record": {
		"(*ajo/api.TestMode).send Do",
	},
	"its callers have the points": {
		"ajo/internal/pg.InTx transact",
		"(*ajo/internal/tenant.Service).locking InTx",
		"(*ajo/internal/provider/nomba.Client).exchange Do",
		"(*ajo/internal/identity/dojah.Checker).get Do",
		"(*ajo/internal/provider.Doubting).Pay Pay",
		"(*ajo/internal/provider.Doubting).CloseAccount CloseAccount",
		"(*ajo/internal/identity.Doubting).CheckNIN CheckNIN",
		"ajo/internal/spool.syncDir Sync",
		"(ajo/internal/archive.Folder).write Sync",
		"ajo/internal/archive.syncDir Sync",
	},
	"it reads, and writes nothing": {
		"ajo/internal/pg.CollectAsBatch SendBatch",
	},
	"the work goes on with it or without it, under the lease that there is": {
		"ajo/internal/work.renew Collect",
		"(*ajo/internal/archive.attempt).hold Exec",
	},
	"only reads": {
		"(*ajo/workers.sweeper).step Overdue",
		"(*ajo/cmd/ajo.tool).newWorkListCmd List",
		"(*ajo/internal/app.Tools).WorkOn Items",
		"(*ajo/internal/app.Tools).RetriableWork Items",
		"ajo/internal/pg.Snapshot transact",
		"ajo/internal/archive.reads BeginFunc",
		"(*ajo/internal/invariant.Checker).read BeginFunc",
		"ajo/internal/invariant.Light Light",
		"(*ajo/workers.Workers).checkOnce Light",
		"ajo/internal/pg.Reading transact",
		"ajo/internal/provider.Record Transaction",
		"(*ajo/internal/payment.Service).findAround Transactions",
		"(*ajo/internal/provider.Doubting).Transaction Transaction",
		"(*ajo/internal/provider.Doubting).Payout Payout",
		"(*ajo/internal/provider.Doubting).FindAccount FindAccount",
		"(*ajo/internal/provider.Doubting).Lookup Lookup",
		"(*ajo/internal/provider.Doubting).ask Transaction",
		"(*ajo/internal/provider.Doubting).ask Payout",
		"(*ajo/internal/provider.Doubting).ask FindAccount",
		"(*ajo/internal/provider.Doubting).ask Lookup",
		"(*ajo/internal/payment.Service).readList Transactions",
		"(*ajo/internal/transfer.Service).Adopt Payout",
		"(*ajo/internal/transfer.Service).askedByHand Payout",
		"(*ajo/internal/reconcile.comparison).askRecord Payout",
		"(*ajo/internal/reconcile.Service).lookAlikes Rows",
		"(*ajo/internal/rekey.Service).walk Collect",
		"(*ajo/internal/transfer.BankList).newest Banks",
		"(*ajo/internal/transfer.Service).Lookup Lookup",
		"ajo/cmd/ajo.askHealth Do",
		"ajo/internal/app.waitFor QueryRow",
		"(*ajo/internal/account.Service).funds Rows",
		"(*ajo/internal/fee.Prices).Quote Read",
		"(*ajo/internal/fee.Prices).Standing Read",
		"(*ajo/internal/payment.Service).PlanAssign find",
		"(*ajo/internal/payment.Service).Correctable findCorrectable",
		"(*ajo/internal/payment.Service).Reviews Page",
		"(*ajo/internal/payment.Service).Review findReview",
		"(*ajo/internal/payment.Service).Compare findReview",
		"(*ajo/internal/transfer.Service).Settle Find",
		"(*ajo/internal/transfer.Service).Beneficiary readBeneficiary",
		"(*ajo/internal/tenant.Service).Keys Page",
		"(*ajo/internal/tenant.Service).Members Page",
		"(*ajo/internal/tenant.Service).Key readKey",
		"(*ajo/internal/operator.Service).Find One",
		"(*ajo/internal/operator.Service).List Page",
		"(*ajo/internal/transfer.Service).Refund readRefundable",
		"(*ajo/internal/transfer.Service).makeByPolicy readRefundable",
	},
	"an operator's word: who got no answer repeats it, and learns that it is done": {
		"ajo/internal/account.CloseByHand InTx",
		"ajo/internal/transfer.MoveWallet InTx",
		"(*ajo/internal/customer.Service).Decide InTx",
		"(*ajo/internal/freeze.Service).Begin InTx",
		"(*ajo/internal/freeze.Service).Lift InTx",
		"(*ajo/internal/limit.Service).set InTx",
		"(*ajo/internal/fee.Prices).Set InTx",
		"(*ajo/internal/tenant.Service).BeginClose locking",
		"(*ajo/internal/tenant.Service).FinishClose locking",
		"ajo/internal/account.ExpireAll InTx",
		"ajo/internal/account.ReleaseHoldByHand InTx",
		"(*ajo/internal/customer.Service).DecideByHand InTx",
		"(*ajo/internal/customer.Service).SetTier InTx",
		"(*ajo/internal/customer.Service).SetStatus InTx",
		"(*ajo/internal/payment.Service).Assign InTx",
		"(*ajo/internal/payment.Service).DecideReview InTx",
		"(*ajo/internal/payment.Service).RecordSender InTx",
		"(*ajo/internal/payment.Service).Correct InTx",
		"(*ajo/internal/payment.Service).restore InTx",
		"(*ajo/internal/payment.Service).DecideRecall InTx",
		"(*ajo/internal/payment.Service).OpenRecallByHand InTx",
		"(*ajo/internal/archive.Service).ArchiveByHand InTx",
		"(*ajo/internal/archive.Service).Export InTx",
		"(*ajo/internal/reconcile.Service).Dismiss InTx",
		"(*ajo/ledger.Report).Save InTx",
		// or a run's, whose next one finds it done
		"(*ajo/internal/payment.Service).postRecord InTx",
		"(*ajo/internal/transfer.Service).Expedite InTx",
		"(*ajo/internal/reconcile.comparison).begin Exec",
		"(*ajo/internal/reconcile.comparison).endDead Exec",
		"(*ajo/internal/reconcile.comparison).outrun Exec",
		"(*ajo/internal/rekey.Service).Seal InTx",
		"(*ajo/internal/operator.Service).invite InTx",
		"(*ajo/internal/operator.Service).Remove InTx",
		"(*ajo/internal/operator.Service).SetUp InTx",
		"(*ajo/internal/operator.Service).Login InTx",
		"(*ajo/internal/operator.Service).Logout Exec",
		"(*ajo/internal/tenant.Service).setStatus locking",
		"(*ajo/internal/tenant.Service).EndSessions locking",
		"(*ajo/internal/tenant.Service).SetOperator locking",
		"(*ajo/internal/tenant.Service).SetPayoutFee locking",
		"(*ajo/internal/tenant.Service).LoginLink InTx",
		"(*ajo/internal/tenant.Service).RotateWebhookSecret locking",
		"(*ajo/internal/transfer.Service).Adopt InTx",
		"(*ajo/internal/transfer.Service).BookCharges InTx",
		"(*ajo/internal/transfer.Service).Cancel InTx",
		"(*ajo/internal/transfer.Service).RefundSuspense InTx",
		"(*ajo/internal/transfer.Service).Poll InTx",
		"(*ajo/internal/transfer.Service).Resolve InTx",
		"(*ajo/internal/webhook.Service).replayOf InTx", "(*ajo/internal/webhook.Service).ReplaySince InTx",
	},
	"one commit at a tenant's word, and nothing follows: it is asked for again, and gives the same": {
		"(*ajo/internal/account.Service).Update InTx",
		"(*ajo/internal/customer.Service).Rename InTx",
		"(*ajo/internal/tenant.Service).BusinessKYC locking",
		"(*ajo/internal/tenant.Service).Logout InTx",
		"(*ajo/internal/tenant.Service).EndSession locking",
		"(*ajo/internal/tenant.Service).RequireTOTP locking",
		"(*ajo/internal/tenant.Service).openSession InTx",
		"(*ajo/internal/tenant.Service).rehash Exec",
		"(*ajo/internal/tenant.Service).remember InTx",
		"(*ajo/internal/tenant.Service).SetWebhookURL locking",
		"(*ajo/internal/tenant.Service).WebhookSecret locking",
		"(*ajo/internal/transfer.Service).SaveBeneficiary InTx",
		"(*ajo/internal/transfer.Service).changeBeneficiary InTx",
		"(*ajo/internal/webhook.Service).Choose InTx",
		"(*ajo/internal/webhook.Service).LogAll InTx",
		"(*ajo/internal/webhook.Service).Listen Exec",
	},
	"one commit, and nothing follows but a mail: a secret that nobody has heard of is rotated again, or its endpoint removed": {
		"(*ajo/internal/tenant.Service).AddEndpoint locking",
		"(*ajo/internal/tenant.Service).lockingEndpoint locking",
	},
	"one commit, and nothing follows but e-mails, which are sent once or never: the next one counts what a lost one said": {
		"(*ajo/internal/tenant.Service).MailApprovers Collect",
	},
	"one commit, and nothing follows: the item of work is gone with it, or comes again": {
		"(*ajo/internal/webhook.Service).endUnsent InTx",
	},
	"one commit, and nothing follows: one who has heard no answer asks again, and the receiver knows the event": {
		"(*ajo/internal/webhook.Service).Resend InTx",
	},
	"one commit, and nothing follows but a mail: who has heard no answer tries the new password, or asks for another code": {
		"(*ajo/internal/tenant.Service).ChangePassword locking",
		"(*ajo/internal/tenant.Service).mailReset InTx",
		"(*ajo/internal/tenant.Service).ResetPassword InTx",
	},
	"one commit, and nothing follows but a mail: a key that nobody has heard of is in the list, and is revoked or rotated again": {
		"(*ajo/internal/tenant.Service).CreateKey locking",
		"(*ajo/internal/tenant.Service).RotateKey locking",
		"(*ajo/internal/tenant.Service).RotateOne locking",
		"(*ajo/internal/tenant.Service).RevokeKey locking",
	},
	"one commit, and nothing follows but a mail: who has heard no answer sees in the list of members whether it is done, or logs in, with a reset of the factor where the recovery codes are lost": {
		"(*ajo/internal/tenant.Service).Invite locking",
		"(*ajo/internal/tenant.Service).AcceptInvitation InTx",
		"(*ajo/internal/tenant.Service).changeMember locking",
		"(*ajo/internal/tenant.Service).SetUpTOTP locking",
		"(*ajo/internal/tenant.Service).ConfirmTOTP locking",
		"(*ajo/internal/tenant.Service).EndTOTP locking",
		"(*ajo/internal/tenant.Service).SetPayoutPolicy locking",
		"(*ajo/internal/tenant.Service).ResetTOTP locking",
	},
	"one commit, and nothing follows but a mail: who has heard no answer gives the next code": {
		"(*ajo/internal/tenant.Service).proveMember InTx",
	},
	"one commit, and nothing follows: who has heard no answer asks for another link": {
		"(*ajo/internal/tenant.Service).LoginByLink InTx",
	},
	"a call that nothing is recorded of, and nothing follows from": {
		"(*ajo/internal/app.Tools).CloseAccount CloseAccount",
		"(*ajo/internal/webhook.Service).Test Post",
	},
	"a note about a failure: without it the end of the lease or the sweep brings the row back": {
		"(*ajo/internal/account.Service).provide Exec",
		"(*ajo/internal/archive.attempt).fail Exec",
		"(*ajo/internal/account.Service).provide Release",
		"(*ajo/internal/payment.Service).concluded Postpone",
		"(*ajo/workers.Workers).postponed Postpone",
		"(*ajo/internal/payment.Service).refuseReceived InTx",
		"(*ajo/internal/reconcile.comparison).fail Exec",
	},
	"a note of a worker whose claim has gone: who has the transfer now asks the bank itself": {
		"(*ajo/internal/transfer.Service).keepAcknowledgement InTx",
	},
	"it moves nothing on: the next time does what this one did not": {
		"(*ajo/internal/tenant.keyUses).write Exec",
		"(*ajo/internal/tenant.Service).writeRefusal InTx",
		"(*ajo/internal/account.Service).freeNumber InTx",
		"(*ajo/internal/payment.Service).claimLists Collect", // who finds the claim waits for the end of its lease
		"(*ajo/internal/payment.Service).readList Exec",
		"(*ajo/internal/payment.Service).OpenRecall InTx",
		"(*ajo/internal/payment.Service).openLate InTx",
		"(*ajo/internal/payment.Service).PostListed InTx", // without it, they are due ten minutes later
		"ajo/internal/work.Retry InTx",
		"(*ajo/internal/payment.Service).PurgeForged Exec",
		"(ajo/internal/retention.Rule).deleteOld Exec",
		"(*ajo/internal/transfer.Service).AcknowledgeListed Exec", // a run that ends here reads that part again
		"(*ajo/internal/customer.Service).releaseNext InTx",       // how far it has come is committed with what it releases
		"ajo/internal/freeze.Resume InTx",                         // what stays behind looks again within five minutes
		"ajo/internal/webhook.Resume InTx",                        // within a day
		"ajo/internal/partition.MakeAhead InTx",
		"(ajo/internal/partition.Table).makeAhead InTx",
		"(ajo/internal/partition.Table).prepareEnd QueryRow",
		"ajo/internal/partition.run InTx",
	},
}

// bystanders are packages that do no work of the service: tools of development, of tests and of
// measurement.
var bystanders = []string{
	"ajo/internal/fakebank", "ajo/internal/testenv", "ajo/internal/stack", "ajo/internal/contract", "ajo/internal/e2e", "ajo/internal/rules", "ajo/bench",
	"ajo/migrations", "ajo/api/client", "ajo/internal/listen", "ajo/docs",
}

// Every commit, enqueue and foreign call has a failpoint before and after it, so that a test can
// kill the process there.
func TestEffectsStandBetweenFailpoints(t *testing.T) {
	l := loaded(t)
	excused := map[string]bool{} // whether anything needs the excuse
	for _, keys := range unsurrounded {
		for _, key := range keys {
			excused[key] = false
		}
	}
	for _, p := range packages(t) {
		if slices.ContainsFunc(bystanders, func(b string) bool { return under(p.ImportPath, b) }) {
			continue
		}
		for _, e := range l.check(p.ImportPath) {
			if _, ok := excused[e.key]; ok {
				excused[e.key] = true
				continue
			}
			t.Errorf("%s: no failpoint %s the %s %q in its function: add points, and to failpoint.Points, or say in unsurrounded why not", e.at, strings.Join(e.lacks, " and none "), e.kind, e.key)
		}
	}
	for key, needed := range excused {
		if !needed {
			t.Errorf("%q is excused, and needs no excuse", key)
		}
	}
}

// The check itself: each source is a function's body, with what it must find lacking.
func TestFailpointCheck(t *testing.T) {
	const head = `package x
import ("context"; "net/http"; "os"; "time"; "ajo/internal/failpoint"; "ajo/internal/idempotency"; "ajo/internal/pg"; "ajo/internal/provider"; "ajo/tasks"; "github.com/hibiken/asynq")
var (_ http.Client; _ *os.File; _ idempotency.Request; _ = failpoint.At; _ provider.Bank; _ *tasks.Enqueuer; _ asynq.Client)
type service struct { pool *pg.Pool; upstream provider.Bank; tasks *asynq.Client; hc *http.Client; file *os.File }
func renamed(s *service) provider.Bank { return s.upstream }
`
	l := loaded(t)
	for _, c := range []struct{ name, body, lacks string }{
		{"a transaction without points", `pg.InTx(ctx, s.pool, func(tx pg.Tx) error { return nil })`, "before after"},
		{"with a point after it only", `pg.InTx(ctx, s.pool, func(tx pg.Tx) error { return nil }); failpoint.At("a")`, "before"},
		{"with a point inside, before its commit", `pg.InTx(ctx, s.pool, func(tx pg.Tx) error { failpoint.At("b"); return nil }); failpoint.At("a")`, ""},
		{"with a point before it only", `failpoint.At("b"); pg.InTx(ctx, s.pool, func(tx pg.Tx) error { return nil })`, "after"},
		{"a statement that writes", `s.pool.Exec(ctx, "UPDATE t SET a = 1")`, "before after"},
		{"one that the source does not spell out", `sql := "SELECT 1"; s.pool.Exec(ctx, sql)`, "before after"},
		{"one that returns rows", `failpoint.At("b"); s.pool.Query(ctx, "WITH x AS (DELETE FROM t RETURNING a) SELECT a FROM x")`, "after"},
		{"one that only locks", `s.pool.Query(ctx, "SELECT a FROM t FOR NO KEY UPDATE OF t")`, ""},
		{"a pool that is handed to who writes", `idempotency.Release(ctx, s.pool, at, idempotency.Request{})`, "before after"},
		{"a pool that is handed to who reads", `idempotency.Find(ctx, s.pool, at, idempotency.Request{})`, ""},
		{"the bank under another name", `renamed(s).CloseAccount(ctx, "x")`, "before after"},
		{"the bank's name, which asks nobody", `s.upstream.Name()`, ""},
		{"two calls with one point between them", `failpoint.At("b"); s.upstream.Banks(ctx); failpoint.At("m"); s.upstream.Banks(ctx); failpoint.At("a")`, ""},
		{"two calls with none between them", `failpoint.At("b"); s.upstream.Banks(ctx); s.upstream.Banks(ctx); failpoint.At("a")`, "after before"},
		{"a task past the Enqueuer", `s.tasks.EnqueueContext(ctx, nil)`, "before after"},
		{"a call of a foreign host", `s.hc.Do(nil)`, "before after"},
		{"an fsync", `failpoint.At("b"); s.file.Sync(); failpoint.At("a")`, ""},
		{"points in another function only", `func() { failpoint.At("b") }(); s.upstream.Banks(ctx)`, "after"},
	} {
		source := head + "func (s *service) f(ctx context.Context, at time.Time) {\n" + c.body + "\n}\n"
		f, err := parser.ParseFile(l.fset, c.name+".go", source, parser.SkipObjectResolution)
		require.NoError(t, err, c.name)
		l.load("x", []*ast.File{f})
		var lacks []string
		for _, e := range l.check("x") {
			lacks = append(lacks, e.lacks...)
		}
		require.Equal(t, c.lacks, strings.Join(lacks, " "), c.name)
	}
}

// loader reads the packages of this module with their types.
type loader struct {
	t       *testing.T
	fset    *token.FileSet
	imports types.Importer
	files   map[string][]*ast.File
	infos   map[string]*types.Info
	writers map[string]bool // functions that write by the Querier that they are given, by full name
}

// theLoader has read the module, once for all tests, which do not run side by side.
var theLoader *loader

func loaded(t *testing.T) *loader {
	if theLoader == nil {
		theLoader = newLoader(t)
	}
	theLoader.t = t
	return theLoader
}

func newLoader(t *testing.T) *loader {
	cmd := exec.Command("go", "list", "-gcflags=all=", "-export", "-deps", "-json=ImportPath,Export", "ajo/...")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	require.NoError(t, err, "%s", &stderr)
	exports := map[string]string{}
	for d := json.NewDecoder(bytes.NewReader(out)); ; {
		var p struct{ ImportPath, Export string }
		if err := d.Decode(&p); errors.Is(err, io.EOF) {
			break
		} else {
			require.NoError(t, err)
		}
		exports[p.ImportPath] = p.Export
	}
	l := &loader{t: t, fset: token.NewFileSet(), files: map[string][]*ast.File{}, infos: map[string]*types.Info{}, writers: map[string]bool{}}
	l.imports = importer.ForCompiler(l.fset, "gc", func(path string) (io.ReadCloser, error) { return os.Open(exports[path]) })
	for _, p := range packages(t) {
		var files []*ast.File
		for _, name := range p.GoFiles {
			f, err := parser.ParseFile(l.fset, filepath.Join(p.Dir, name), nil, parser.SkipObjectResolution)
			require.NoError(t, err)
			files = append(files, f)
		}
		l.load(p.ImportPath, files)
	}
	l.findWriters()
	return l
}

// load finds the types of a package's files.
func (l *loader) load(path string, files []*ast.File) {
	info := &types.Info{Types: map[ast.Expr]types.TypeAndValue{}, Uses: map[*ast.Ident]types.Object{}, Defs: map[*ast.Ident]types.Object{}}
	config := types.Config{Importer: l.imports}
	_, err := config.Check(path, l.fset, files, info)
	require.NoError(l.t, err)
	l.files[path], l.infos[path] = files, info
}

// functions are the declared functions of a package.
func (l *loader) functions(path string) (all []*ast.FuncDecl) {
	for _, f := range l.files[path] {
		for _, d := range f.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok && fn.Body != nil {
				all = append(all, fn)
			}
		}
	}
	return all
}

// callee is the full name of the function or method that is called; empty for a function value or a
// conversion.
func callee(info *types.Info, call *ast.CallExpr) string {
	fun := ast.Unparen(call.Fun)
	if index, ok := fun.(*ast.IndexExpr); ok {
		fun = index.X
	}
	var id *ast.Ident
	switch f := fun.(type) {
	case *ast.Ident:
		id = f
	case *ast.SelectorExpr:
		id = f.Sel
	default:
		return ""
	}
	fn, ok := info.Uses[id].(*types.Func)
	if !ok {
		return ""
	}
	return fn.Origin().FullName()
}

// findWriters notes the functions that write by a Querier of theirs, or hand it to one that does.
func (l *loader) findWriters() {
	for grown := true; grown; {
		grown = false
		for path, info := range l.infos {
			for _, fn := range l.functions(path) {
				name := info.Defs[fn.Name].(*types.Func).FullName()
				if !l.writers[name] && l.writes(info, fn.Body, "ajo/internal/pg.Querier") {
					l.writers[name], grown = true, true
				}
			}
		}
	}
}

func (l *loader) writes(info *types.Info, body ast.Node, by string) (found bool) {
	ast.Inspect(body, func(n ast.Node) bool {
		if call, ok := n.(*ast.CallExpr); ok {
			found = found || l.writesBy(info, call, by)
		}
		return !found
	})
	return found
}

// writesBy reports whether the call writes by a value of the named type: a method of it, or a
// function that is handed it.
func (l *loader) writesBy(info *types.Info, call *ast.CallExpr, by string) bool {
	is := func(e ast.Expr) bool {
		t := info.TypeOf(e)
		if p, ok := t.(*types.Pointer); ok {
			t = p.Elem()
		}
		return t != nil && types.TypeString(types.Unalias(t), nil) == by
	}
	if sel, ok := call.Fun.(*ast.SelectorExpr); ok && is(sel.X) {
		switch sel.Sel.Name {
		case "Exec", "Query", "QueryRow":
			return writesSQL(info, call, 1)
		case "SendBatch", "CopyFrom":
			return true
		}
	}
	if at, ok := statements[callee(info, call)]; ok {
		return slices.ContainsFunc(call.Args, is) && writesSQL(info, call, at)
	}
	return l.writers[callee(info, call)] && slices.ContainsFunc(call.Args, is)
}

// statements are the functions that run a statement of the caller's, and its place among the
// arguments.
var statements = map[string]int{"ajo/internal/pg.Rows": 2, "ajo/internal/pg.Collect": 3, "ajo/internal/pg.One": 4, "(ajo/internal/pg.List[T]).Page": 3, "(ajo/internal/pg.List[T]).Filtered": 4}

var (
	lockSQL  = regexp.MustCompile(`(?i)\bFOR\s+(NO\s+KEY\s+)?UPDATE\b`)
	writeSQL = regexp.MustCompile(`(?i)\b(INSERT\s+INTO|UPDATE|DELETE\s+FROM|TRUNCATE|MERGE)\s`)
)

// writesSQL reports whether a statement writes. One that the source does not spell out is taken for
// one that does.
func writesSQL(info *types.Info, call *ast.CallExpr, at int) bool {
	if len(call.Args) <= at {
		return true
	}
	sql := info.Types[call.Args[at]].Value
	if sql == nil || sql.Kind() != constant.String {
		return true
	}
	return writeSQL.MatchString(lockSQL.ReplaceAllString(constant.StringVal(sql), ""))
}

// bare is an effect that lacks a point before or after it.
type bare struct {
	at    token.Position
	kind  string
	key   string // the function that it stands in, and what is called there
	lacks []string
}

// step is a point (with no kind) or an effect, at the place where it happens: a call happens when
// it ends.
type step struct {
	pos        token.Pos
	kind, name string
}

// check returns the effects in a package that lack a point. Between an effect and the one before it
// in its function, and between it and the one after it, in the order of the source, a point must
// stand.
func (l *loader) check(path string) (found []bare) {
	info := l.infos[path]
	for _, fn := range l.functions(path) {
		steps := l.steps(info, fn.Body)
		for i, s := range steps {
			if s.kind == "" {
				continue
			}
			b := bare{at: l.fset.Position(s.pos), kind: s.kind, key: info.Defs[fn.Name].(*types.Func).FullName() + " " + s.name}
			if i == 0 || steps[i-1].kind != "" {
				b.lacks = append(b.lacks, "before")
			}
			if i == len(steps)-1 || steps[i+1].kind != "" {
				b.lacks = append(b.lacks, "after")
			}
			if len(b.lacks) > 0 {
				found = append(found, b)
			}
		}
	}
	return found
}

func (l *loader) steps(info *types.Info, body ast.Node) (steps []step) {
	ast.Inspect(body, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok {
			return true
		}
		name := callee(info, call)
		short := name[strings.LastIndexByte(name, '.')+1:]
		switch {
		case strings.HasPrefix(name, "ajo/internal/failpoint."):
			steps = append(steps, step{pos: call.End()})
		case effects[name] != "":
			steps = append(steps, step{call.End(), effects[name], short})
		case slices.ContainsFunc(foreign, func(i string) bool { return strings.HasPrefix(name, "("+i+").") }) && len(call.Args) > 0:
			steps = append(steps, step{call.End(), "foreign call", short})
		case l.writesBy(info, call, "github.com/jackc/pgx/v5/pgxpool.Pool"):
			steps = append(steps, step{call.End(), "commit", short})
		}
		return true
	})
	slices.SortFunc(steps, func(a, b step) int { return int(a.pos - b.pos) })
	return steps
}
