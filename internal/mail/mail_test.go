package mail

import (
	"io"
	"mime"
	"mime/quotedprintable"
	"net/mail"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"ajo/internal/clock"
)

var now = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

const from = "Ajo <no-reply@ajo.example>"

// folder returns a sender to dir whose clock stands at now.
func folder(t *testing.T, dir string) *Folder {
	t.Helper()
	f, err := NewFolder(dir, from)
	require.NoError(t, err)
	f.clock = clock.NewFake(now)
	return f
}

// read takes a mail apart: its headers, and its text decoded.
func read(t *testing.T, raw io.Reader) (mail.Header, string) {
	t.Helper()
	m, err := mail.ReadMessage(raw)
	require.NoError(t, err)
	body := m.Body
	if m.Header.Get("Content-Transfer-Encoding") == "quoted-printable" {
		body = quotedprintable.NewReader(body)
	}
	text, err := io.ReadAll(body)
	require.NoError(t, err)
	return m.Header, strings.ReplaceAll(string(text), "\r\n", "\n")
}

func decoded(t *testing.T, header string) string {
	t.Helper()
	s, err := new(mime.WordDecoder).DecodeHeader(header)
	require.NoError(t, err)
	return s
}

func TestFolder(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "a", "mail")
	f := folder(t, dir)
	info, err := os.Stat(dir)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o700), info.Mode().Perm())

	text := "Báwo ni,\n\nyour code is 012345.\n.\n.hidden\n" + strings.Repeat("long ", 60) + "\n₦5,000.00 = ok\n"
	require.NoError(t, f.Send(t.Context(), Message{To: "Ọla <ola@shop.example>", Subject: "Your code – Ajo", Text: text}))

	files, err := filepath.Glob(filepath.Join(dir, "*.eml"))
	require.NoError(t, err)
	require.Len(t, files, 1)
	require.True(t, strings.HasPrefix(filepath.Base(files[0]), "20261120T120000.000000Z-"))
	info, err = os.Stat(files[0])
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode().Perm())

	file, err := os.Open(files[0])
	require.NoError(t, err)
	t.Cleanup(func() { _ = file.Close() })
	h, body := read(t, file)
	require.Equal(t, text, body)
	require.Equal(t, "Your code – Ajo", decoded(t, h.Get("Subject")))
	to, err := h.AddressList("To")
	require.NoError(t, err)
	require.Equal(t, []*mail.Address{{Name: "Ọla", Address: "ola@shop.example"}}, to)
	sender, err := h.AddressList("From")
	require.NoError(t, err)
	require.Equal(t, []*mail.Address{{Name: "Ajo", Address: "no-reply@ajo.example"}}, sender)
	date, err := h.Date()
	require.NoError(t, err)
	require.True(t, date.Equal(now))
	require.Contains(t, h.Get("Content-Type"), "text/plain")
	require.Regexp(t, `^<[A-Z2-7]+@ajo\.example>$`, h.Get("Message-ID"))
	require.Empty(t, h.Get("User-Agent")+h.Get("X-Mailer"))
	require.Equal(t, "auto-generated", h.Get("Auto-Submitted"))
}

func TestFolderNamesAreUnique(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	f := folder(t, dir)
	var wg sync.WaitGroup
	for range 50 {
		wg.Go(func() {
			if err := f.Send(t.Context(), Message{To: "a@b.example", Subject: "s", Text: "t"}); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	all, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, all, 50, "and nothing half-written is left")
}

func TestFolderFails(t *testing.T) {
	t.Parallel()
	blocked := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(blocked, nil, 0o600))
	_, err := NewFolder(filepath.Join(blocked, "x"), from)
	require.Error(t, err)
	_, err = NewFolder("", from)
	require.Error(t, err)
	_, err = NewFolder(t.TempDir(), "nobody")
	require.Error(t, err)

	dir := filepath.Join(t.TempDir(), "gone")
	f := folder(t, dir)
	require.NoError(t, os.Remove(dir))
	require.Error(t, f.Send(t.Context(), Message{To: "a@b.example", Subject: "s", Text: "t"}))
}

// unsendable are messages that no sender takes.
var unsendable = map[string]Message{
	"no address":            {"", "s", "t"},
	"no address at all":     {"nobody", "s", "t"},
	"two addresses":         {"a@b.example, c@d.example", "s", "t"},
	"a header behind it":    {"a@b.example\r\nBcc: c@d.example", "s", "t"},
	"a header in the name":  {"\"x\r\nBcc: c@d.example\" <a@b.example>", "s", "t"},
	"an encoded line break": {"=?utf-8?q?x=0D=0ABcc=3A_c=40d.example?= <a@b.example>", "s", "t"},
	"quoted brackets":       {`"a> <c@d.example"@b.example`, "s", "t"},
	"a zero byte":           {"a\x00@b.example", "s", "t"},
	"a long address":        {strings.Repeat("a", 400) + "@b.example", "s", "t"},
	"no subject":            {"a@b.example", " ", "t"},
	"a line feed":           {"a@b.example", "s\nBcc: c@d.example", "t"},
	"a carriage return":     {"a@b.example", "s\rBcc: c@d.example", "t"},
	"a line separator":      {"a@b.example", "s\u2028Bcc: c@d.example", "t"},
	"a next line":           {"a@b.example", "s\u0085x", "t"},
	"a subject of no UTF-8": {"a@b.example", "s\xff", "t"},
	"a long subject":        {"a@b.example", strings.Repeat("s", 300), "t"},
	"a text of no UTF-8":    {"a@b.example", "s", "t\xff"},
	"a zero in the text":    {"a@b.example", "s", "t\x00"},
	"a huge text":           {"a@b.example", "s", strings.Repeat("t", maxText+1)},
}

func TestUnsendable(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	f := folder(t, dir)
	for label, m := range unsendable {
		require.ErrorIs(t, f.Send(t.Context(), m), errMessage, label)
	}
	all, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Empty(t, all)
}

func FuzzCompose(f *testing.F) {
	f.Add("a@b.example", "subject", "text")
	f.Add("=?utf-8?q?x?= <a@b.example>", "=?utf-8?q?x=0D=0ABcc:?=", "Bcc: x\r\n\r\n.\r\n")
	f.Fuzz(func(t *testing.T, to, subject, text string) {
		sender, err := parseAddress(from)
		require.NoError(t, err)
		msg, err := compose(Message{to, subject, text}, sender, now)
		if err != nil {
			require.ErrorIs(t, err, errMessage)
			return
		}
		var raw strings.Builder
		_, err = msg.WriteTo(&raw)
		require.NoError(t, err)
		h, _ := read(t, strings.NewReader(raw.String()))
		for name := range h {
			switch name {
			case "Date", "From", "To", "Subject", "Message-Id", "Mime-Version", "Content-Type", "Content-Transfer-Encoding", "Auto-Submitted":
			default:
				t.Fatalf("a header %q came in", name)
			}
		}
		list, err := h.AddressList("To")
		require.NoError(t, err)
		require.Len(t, list, 1)
	})
}

// A name that somebody else has chosen does not turn the direction of what follows it.
func TestTextKeepsItsDirection(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	require.NoError(t, folder(t, dir).Send(t.Context(), Message{To: "a@b.example", Subject: "s", Text: "\u2067Ada\u202E invites you, with the role viewer.\n"}))
	files, err := filepath.Glob(filepath.Join(dir, "*.eml"))
	require.NoError(t, err)
	require.Len(t, files, 1)
	file, err := os.Open(files[0])
	require.NoError(t, err)
	t.Cleanup(func() { _ = file.Close() })
	_, body := read(t, file)
	require.Equal(t, "Ada invites you, with the role viewer.\n", body)
}
