package pg

import (
	"fmt"
	"reflect"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"
)

// Many rows go to one statement as one array per column, which unnest turns into rows again. A
// struct names its columns in tags, once:
//
//	type hold struct {
//		ID    uuid.UUID    `pg:"id"`
//		Until *time.Time   `pg:"until"`
//		Held  money.Amount `pg:"held,numeric"`
//	}
//
// [Unnest] is their place in the statement, [Names] their list, and [Columns] the arguments.
//
// The element's type follows from the field's: uuid.UUID, time.Time, strings, bools, ints and bytes
// (a slice, or an array such as a hash), and pointers to them but for bytes, where nil is NULL. A
// type in the tag is for what goes as its String(). A field without a tag is no column; those of an
// embedded struct belong to the outer one.

// Unnest is the expression after FROM (or JOIN) for rows of type T: their columns and n, the number
// of the row from 1. Its first argument has the number first.
//
//	FROM unnest($3::uuid[], $4::timestamptz[]) WITH ORDINALITY AS m (id, until, n)
func Unnest[T any](first int, as string) string {
	var arrays []string
	for i, c := range columnsOf(reflect.TypeFor[T]()) {
		arrays = append(arrays, fmt.Sprintf("$%d::%s", first+i, c.array))
	}
	return "unnest(" + strings.Join(arrays, ", ") + ") WITH ORDINALITY AS " + as + " (" + Names[T]() + ", n)"
}

// Insert is an INSERT of rows of type T with their columns into the table, up to the end of its
// SELECT. Its first argument has the number first.
func Insert[T any](table string, first int) string {
	return "INSERT INTO " + table + " (" + Names[T]() + ") SELECT " + Names[T]() + " FROM " + Unnest[T](first, "r")
}

// Names are the columns of rows of type T, with commas between them.
func Names[T any]() string {
	var names []string
	for _, c := range columnsOf(reflect.TypeFor[T]()) {
		names = append(names, c.name)
	}
	return strings.Join(names, ", ")
}

// Columns are the arguments of a statement with [Unnest]: those given, as $1 and on, and then one
// array per column of the rows, which are structs or pointers to them.
func Columns[T any](rows []T, before ...any) []any {
	t := reflect.TypeFor[T]()
	pointers := t.Kind() == reflect.Pointer
	if pointers {
		t = t.Elem()
	}
	structs := make([]reflect.Value, len(rows))
	all := reflect.ValueOf(rows)
	for i := range structs {
		if structs[i] = all.Index(i); pointers {
			structs[i] = structs[i].Elem()
		}
	}
	columns := columnsOf(t)
	args := make([]any, 0, len(before)+len(columns))
	args = append(args, before...)
	for _, c := range columns {
		args = append(args, c.collect(structs, c.index))
	}
	return args
}

// column is a tagged field.
type column struct {
	name  string
	array string // the argument's type in SQL
	index []int  // the field's path
	// collect makes the array of all rows
	collect func(rows []reflect.Value, index []int) any
}

var knownColumns sync.Map // []column by the type of the struct

func columnsOf(t reflect.Type) []column {
	if known, ok := knownColumns.Load(t); ok {
		return known.([]column)
	}
	var columns []column
	for _, f := range reflect.VisibleFields(t) {
		tag, ok := f.Tag.Lookup("pg")
		if !ok {
			continue
		}
		name, cast, _ := strings.Cut(tag, ",")
		c := column{name: name, index: f.Index}
		if c.array, c.collect = collector(f.Type, cast); c.collect == nil || !f.IsExported() {
			panic(fmt.Sprintf("pg: %s.%s cannot be a column", t, f.Name))
		}
		columns = append(columns, c)
	}
	knownColumns.Store(t, columns)
	return columns
}

// collector turns fields of a type into an array, and names the array's type.
func collector(t reflect.Type, cast string) (array string, collect func([]reflect.Value, []int) any) {
	if cast != "" {
		if t.Kind() == reflect.Pointer && t.Implements(reflect.TypeFor[fmt.Stringer]()) {
			return "text[]::" + cast + "[]", nullableText
		}
		return "text[]::" + cast + "[]", func(rows []reflect.Value, at []int) any {
			return each(rows, at, func(f reflect.Value) string { return f.Addr().Interface().(fmt.Stringer).String() })
		}
	}
	switch t {
	case reflect.TypeFor[uuid.UUID]():
		return "uuid[]", values[uuid.UUID]
	case reflect.TypeFor[*uuid.UUID]():
		return "uuid[]", values[*uuid.UUID]
	case reflect.TypeFor[time.Time]():
		return "timestamptz[]", values[time.Time]
	case reflect.TypeFor[*time.Time]():
		return "timestamptz[]", values[*time.Time]
	case reflect.TypeFor[*string]():
		return "text[]", values[*string]
	case reflect.TypeFor[*bool]():
		return "bool[]", values[*bool]
	case reflect.TypeFor[*int32]():
		return "int[]", values[*int32]
	case reflect.TypeFor[*int64]():
		return "bigint[]", values[*int64]
	}
	switch t.Kind() {
	case reflect.String:
		return "text[]", func(rows []reflect.Value, at []int) any { return each(rows, at, reflect.Value.String) }
	case reflect.Bool:
		return "bool[]", func(rows []reflect.Value, at []int) any { return each(rows, at, reflect.Value.Bool) }
	case reflect.Int32:
		return "int[]", func(rows []reflect.Value, at []int) any { return each(rows, at, reflect.Value.Int) }
	case reflect.Int, reflect.Int64:
		return "bigint[]", func(rows []reflect.Value, at []int) any { return each(rows, at, reflect.Value.Int) }
	case reflect.Slice, reflect.Array:
		if t.Elem().Kind() == reflect.Uint8 {
			return "bytea[]", func(rows []reflect.Value, at []int) any { return each(rows, at, reflect.Value.Bytes) }
		}
	}
	return "", nil
}

func each[E any](rows []reflect.Value, at []int, of func(reflect.Value) E) []E {
	out := make([]E, len(rows))
	for i := range rows {
		if len(at) == 1 {
			out[i] = of(rows[i].Field(at[0]))
		} else {
			out[i] = of(rows[i].FieldByIndex(at))
		}
	}
	return out
}

// values reads fields of exactly the type E. It uses their addresses, as the values themselves
// would be copied to the heap.
func values[E any](rows []reflect.Value, at []int) any {
	return each(rows, at, func(f reflect.Value) E { return *f.Addr().Interface().(*E) })
}

func nullableText(rows []reflect.Value, at []int) any {
	return each(rows, at, func(f reflect.Value) *string {
		if f.IsNil() {
			return nil
		}
		return new(f.Interface().(fmt.Stringer).String())
	})
}
